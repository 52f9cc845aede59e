"""Commands that run servers: `tailrace up`, `serve sc`, `serve spu`. Of the other rooms it imports clients only."""
