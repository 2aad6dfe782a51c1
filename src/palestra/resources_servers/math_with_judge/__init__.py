r"""Mathematics with `\boxed{}`: are two answers the same, by rules and optionally by a judge."""
