"""Strategies that draw all kinds of text."""

from hypothesis import strategies as st

# Likely trouble: white space of every kind, control characters, characters that vanish, grow,
# shrink or depend on their neighbors, other scripts, and the comma rule's "1," and "9,".
ODD = [
    *" \t\n\r\x00\x01\x1c\x1f\x7f\x85\xa0\xad\u200b\u200d\u200e\u202e\u2028\u3000\ufeff\ufffd",
    *"\u0301\u0300\u0327\u0345\u05b8\u0651\u20dd\ud800\udfff▁,.'-",
    *"½²ﬁŉßẞİıſΣςσÅé각がｶﾞ\u1100\u1161\u11a8٣９①㍿ﷺאبم中文ไทย",
    *("   ", "\n\n", "1,", "9,", "1995,", " 10,000, ", "1 ,", "the ", "Of", "a\u0301"),
    *("👩‍👧", "🇩🇪", "¨"),
]
CHARACTERS = st.characters(exclude_categories=())
TEXTS = st.lists(
    st.one_of(st.sampled_from(ODD), st.text(CHARACTERS, max_size=3), st.sampled_from("aeiSt 19,")),
    max_size=20,
).map("".join)
