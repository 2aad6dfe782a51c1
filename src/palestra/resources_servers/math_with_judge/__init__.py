r"""Mathematics with `\boxed{}`: are two answers equal, by rules and optionally by a judge?"""
