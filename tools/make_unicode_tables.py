#!/usr/bin/env python3
"""Makes src/data/tokenizer/unicode_tables.inc by asking the `tokenizers` package what it does with every code point.

Usage: make_unicode_tables.py > src/data/tokenizer/unicode_tables.inc      (needs: pip install tokenizers==0.23.3)

The package mixes Unicode versions: its regular expressions, its digit test, its word test and its normaliser each come
from a library of another age. To agree with it to the last id, nothing here is taken from the Unicode files.
"""
import sys
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = ["Cn", "Cc", "Cf", "Co", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No",
              "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp"]


def matched(pretokenizer, chunk=4096):
    """The code points that the pre-tokenizer removes or isolates, told by a chunk of them at a time."""
    found = set()
    for i in range(0, len(CODES), chunk):
        text = "".join(map(chr, CODES[i:i + chunk]))
        kept = set()
        for piece, _ in pretokenizer.pre_tokenize_str(text):
            kept.update(piece)
        found.update(ord(c) for c in text if c not in kept)
    return found


def regex_class(pattern):
    return matched(pre_tokenizers.Split(Regex(pattern), "removed"))


def ranges(codes):
    out = []
    for c in sorted(codes):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def numeric():
    """Rust's char::is_numeric, as the Digits pre-tokenizer uses it."""
    digits = pre_tokenizers.Digits(individual_digits=True)
    return {c for c in CODES if len(digits.pre_tokenize_str("!" + chr(c) + "!")) == 3}


def word_and_space():
    """What single_word and lstrip of added tokens see beside them."""
    def tokenizer(**how):
        t = Tokenizer(models.BPE({"~": 0}, []))
        t.add_tokens([AddedToken("XQ", normalized=False, **how)])
        return t
    single, strip = tokenizer(single_word=True), tokenizer(lstrip=True)
    word = {c for c in CODES if not single.encode(chr(c) + "XQ").tokens}
    space = {c for c in CODES if strip.encode("XX" + chr(c) + "XQ").offsets[0][0] == 2}
    return word, space


def combining_classes(nfd):
    """By sorting against marks of known class: a mark moves before another of a higher class."""
    known = {1: 0x0334, 7: 0x093C, 8: 0x3099, 9: 0x094D, 10: 0x05B0, 11: 0x05B1, 12: 0x05B2, 13: 0x05B3, 14: 0x05B4,
             15: 0x05B5, 16: 0x05B6, 17: 0x05B7, 18: 0x05B8, 19: 0x05B9, 20: 0x05BB, 21: 0x05BC, 22: 0x05BD,
             23: 0x05BF, 24: 0x05C1, 25: 0x05C2, 26: 0xFB1E, 27: 0x064B, 28: 0x064C, 29: 0x064D, 30: 0x064E,
             31: 0x064F, 32: 0x0650, 33: 0x0651, 34: 0x0652, 35: 0x0670, 36: 0x0711, 84: 0x0C55, 91: 0x0C56,
             103: 0x0E38, 107: 0x0E48, 118: 0x0EB8, 122: 0x0EC8, 129: 0x0F71, 130: 0x0F72, 132: 0x0F74, 202: 0x0321,
             214: 0x1DCE, 216: 0x031B, 218: 0x302A, 220: 0x0316, 222: 0x059A, 224: 0x302E, 226: 0x1D16D, 228: 0x05AE,
             230: 0x0301, 232: 0x0315, 233: 0x035C, 234: 0x035D, 240: 0x0345}

    def after(c, mark):  # the class of c is above the mark's
        text = "a" + chr(c) + chr(mark)
        out = nfd.normalize_str(text)
        return out != text and out.startswith("a" + chr(mark))

    def before(c, mark):  # c has a class below the mark's
        text = "a" + chr(mark) + chr(c)
        out = nfd.normalize_str(text)
        return out != text and out.endswith(chr(mark))

    classes = {}
    for c in CODES:
        if 0xAC00 <= c < 0xD7A4 or nfd.normalize_str(chr(c)) != chr(c):
            continue
        if not after(c, 0x0334) and not before(c, 0x0345):
            continue
        below = [k for k, m in known.items() if m != c and after(c, m)]
        above = [k for k, m in known.items() if m != c and before(c, m)]
        between = [k for k in known if k > max(below, default=0) and k < min(above, default=255)]
        assert len(between) == 1, (hex(c), between)
        classes[c] = between[0]
    # the ends of the scale do not move past each other's equals: members of class 1 and 240 tell by one side alone
    return classes


def main():
    assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
    print("/* Made by tools/make_unicode_tables.py from tokenizers 0.23.3; do not edit. */\n")
    gc = {}
    for i, name in enumerate(CATEGORIES):
        for c in regex_class(r"\p{%s}" % name):
            assert c not in gc or name == "Cn", (hex(c), name)
            gc.setdefault(c, i)
    for big, small in (("L", "Lu Ll Lt Lm Lo"), ("M", "Mn Mc Me"), ("N", "Nd Nl No"), ("P", "Pc Pd Ps Pe Pi Pf Po"),
                       ("S", "Sm Sc Sk So"), ("Z", "Zs Zl Zp")):
        union = {c for c, i in gc.items() if CATEGORIES[i] in small.split()}
        assert union == regex_class(r"\p{%s}" % big), big
    assert set(gc) == set(CODES)
    rows = []
    for c in range(0x110000):
        i = gc.get(c, 0)
        if not rows or rows[-1][1] != i:
            rows.append((c, i))
    print("/* First code point of each run << 8 | general category. */")
    table("category_run", [f"0x{c << 8 | i:x}" for c, i in rows])
    space = regex_class(r"\s")
    word, strip = word_and_space()
    for name, codes in (("space_range", space), ("strip_range", strip), ("numeric_range", numeric()),
                        ("word_range", word)):
        print(f"/* First and last code point. */")
        table(name, [f"0x{a:x}, 0x{b:x}" for a, b in ranges(codes)])
    nfd, nfc = normalizers.NFD(), normalizers.NFC()
    classes = combining_classes(nfd)
    print("/* Code point << 8 | canonical combining class. */")
    table("combining_class", [f"0x{c << 8 | k:x}" for c, k in sorted(classes.items())])
    hangul = range(0xAC00, 0xD7A4)
    single, pair = [], []
    for c in CODES:
        d = nfd.normalize_str(chr(c))
        if d == chr(c) or c in hangul:
            continue
        composes = nfc.normalize_str(d) == chr(c)
        if composes:
            a = nfc.normalize_str(d[:-1])
            assert len(a) == 1, hex(c)
            pair.append((c, ord(a), ord(d[-1])))
        else:
            single.append((c, d))
    print("/* Composite, first, second: canonical pairs that compose. */")
    table("composition", [f"0x{c:x}, 0x{a:x}, 0x{b:x}" for c, a, b in pair])
    print("/* Code point, full decomposition (0: no more): what decomposes and does not come back. */")
    table("decomposition", ["0x%x, %s" % (c, ", ".join("0x%x" % ord(x) for x in d) + ", 0" * (4 - len(d)))
                            for c, d in single])


def table(name, items):
    line = f"static const uint32_t {name}[] = {{\n   "
    for item in items:
        if len(line.splitlines()[-1]) + len(item) > 116:
            line += "\n   "
        line += f" {item},"
    print(line + "\n};\n")


main()
