"""Credentials: runtime keys, licenses and join tokens, from bytes that anyone may send to facts.

What it promises:
    - Nothing here reads a clock, a file, the environment or the network. Where time matters, `now` is an
      argument; dates that another layer decides (a join token's life) are handed out as facts.
    - Input is hostile: its length is bounded before it is read, its alphabet is checked, and every fault
      ends in None (runtime keys) or in one exception with a reason from a closed set (licenses, tokens).
      No fault, message or repr carries a secret.
    - A signature is checked before a claim is believed. The algorithm is pinned by the code, never taken
      from the token: EdDSA (Ed25519) for licenses, HS256 for join tokens.
    - Secrets are compared in constant time, and only a hash of a runtime key's secret is ever stored.

Concurrency: functions are pure and objects are frozen; all may be used from any task or thread.

Life cycle: keys and secrets are parsed once at start, and a license's signature is checked once; what is
decided on each request is a comparison of facts.

May import: `memlane.domain`, PyJWT, cryptography. Its siblings and everything above it: never.
"""
