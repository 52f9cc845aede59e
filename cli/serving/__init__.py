"""Commands that run servers: `tailrace up`, `serve sc`, `serve spu`. May import clients, options and output."""
