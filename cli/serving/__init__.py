"""Commands that run servers: `tailrace up`, `serve sc`, `serve spu`. Imports no other room."""
