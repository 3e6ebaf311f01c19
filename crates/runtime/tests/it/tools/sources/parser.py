"""A small parser."""
import os
from typing import Callable

MOST = 10
limit: int = 3
lower = 4
TABLE = {
    "a": 1,
}

if os.name == "nt":
    def windows() -> None: ...


# Words.
class Token(str):
    kind: str = "word"

    class Meta:
        ordering = 1

    @property
    def size(self) -> int:
        def inner():
            pass
        return len(self)

    async def push(
        self,
        token: "Token",
        *,
        strict: bool = False,
    ) -> list[int]:
        return []


@decorated(lambda x: x)
@twice
def parse(text: str, on: Callable[[int], None] = lambda n: None) -> Token:
    return Token(text)
