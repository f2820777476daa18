"""Tables as people write them, and what a person sees in each."""

from __future__ import annotations

import gzip
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

ROWS = 14  # of every table below; a target needs ten


class Case(NamedTuple):
    """A file, and what a person sees in it."""

    name: str
    data: bytes
    columns: dict[str, list]  # of the first rows: numbers, texts, None where missing
    kind: str  # of the target, the last column of the file
    notes: tuple[str, ...] = ()  # words in what is said about the reading
    file: str = "data.csv"
    options: Mapping[str, object] = MappingProxyType({})


def rows(header: str, lines: list[str], end: str = "\n") -> str:
    """The lines again and again, to ROWS of them."""
    return end.join([header, *(lines[i % len(lines)] for i in range(ROWS))]) + end


NAN = math.nan
CASES = [
    Case(
        "German numbers",
        rows("Größe;Preis", ["1,5;1.234,56", "2,25;999,00", "3;12.000,5"]).encode(),
        {"Größe": [1.5, 2.25, 3], "Preis": [1234.56, 999, 12000.5]},
        "gaussian",
        ("Preis: read as numbers with decimal comma ('1.234,56' is 1234.56).",),
    ),
    Case(
        "German whole thousands, decided by the other column",
        rows("Anteil;Umsatz", ["0,5;1.250", "0,7;2.500", "0,1;3.750"]).encode(),
        {"Anteil": [0.5, 0.7, 0.1], "Umsatz": [1250, 2500, 3750]},
        "gaussian",
        ("Umsatz: read as numbers with decimal comma ('1.250' is 1250).",),
    ),
    Case(
        "three decimals with points, decided by the other column",
        rows("share;mass", ["0.5;1.250", "0.7;2.500", "0.25;3.750"]).encode(),
        {"share": [0.5, 0.7, 0.25], "mass": [1.25, 2.5, 3.75]},
        "gaussian",
    ),
    Case(
        "German whole thousands, decided by the semicolons",
        rows("Jahr;Umsatz", ["2019;1.250", "2020;2.500", "2021;3.750"]).encode(),
        {"Jahr": [2019, 2020, 2021], "Umsatz": [1250, 2500, 3750]},
        "gaussian",
        ("'1.250' is 1250",),
    ),
    Case(
        "French numbers with three kinds of spaces",
        rows("prix (€, HT);surface", ["1 234,56;10,5", "12\u00a0345,60;22", "1\u202f000\u202f000;31,25"]).encode(),
        {"prix (€, HT)": [1234.56, 12345.6, 1e6], "surface": [10.5, 22, 31.25]},
        "gaussian",
        ("prix (€, HT): read as numbers with decimal comma ('1 234,56' is 1234.56).",),
    ),
    Case(
        "Swiss numbers",
        rows("n;Betrag", ["1;1'234.56", "2;12’000.00", "3;999.95"]).encode(),
        {"n": [1, 2, 3], "Betrag": [1234.56, 12000, 999.95]},
        "gaussian",
        ("Betrag: read as numbers with thousands separators",),
    ),
    Case(
        "whole amounts with a dash for no cents",
        rows("a;b;c", ["1'234.-;1.234,--;20/-", "5.-;5,-;1,000/-", "-7.-;-7,– €;Rs 3/-"]).encode(),
        {"a": [1234, 5, -7], "b": [1234, 5, -7], "c": [20, 1000, 3]},
        "negative_binomial",
        ("is 1234",),
    ),
    Case(
        "a total in the last row",
        (rows("kind;x;y", ["a;1;2,5", "b;2;-1", "a;3;0,5"]) + "Total;30;10\n").encode(),
        {"kind": ["a", "b", "a"], "y": [2.5, -1, 0.5]},
        "gaussian",
        ("the last row is a total ('Total'), and is not used.", "decimal comma"),
    ),
    Case(
        "a total below numbers, and a category that has its name",
        (rows("year;kind;y", ["2019;total;2,5", "2020;part;-1", "2021;part;0,5"]) + "Summe:;total;28\n").encode(),
        {"year": [2019, 2020], "kind": ["total", "part"], "y": [2.5, -1]},
        "gaussian",
        ("the last row is a total ('Summe:')", "decimal comma"),
    ),
    Case(
        "a last row that is no total",
        rows("kind,y", ["total,2.5", "part,-1.5"]).encode() + b"total,3.5\n",
        {"kind": ["total", "part"], "y": [2.5, -1.5]},
        "gaussian",
    ),
    Case(
        "codes with leading zeros",
        rows("zip,month,n,y", ["01067,01,1,2.5", "10115,12,0,3.5", "01067,07,22,-4.5"]).encode(),
        {"zip": ["01067", "10115"], "month": ["01", "12", "07"], "n": [1, 0, 22]},
        "gaussian",
        ("zip: read as codes, not as numbers, because of leading zeros ('01067').", "month: read as codes"),
    ),
    Case(
        "leading zeros of numbers",
        rows("a,b,c,y", ["0.5,01.5,007,2.5", "05,10.5,012,3.5", "-3,00.5,100,-4.5"]).encode(),
        {"a": [0.5, 5, -3], "b": [1.5, 10.5, 0.5], "c": [7, 12, 100]},
        "gaussian",
        options={"numbers": ["c"]},
    ),
    Case(
        "units",
        rows("mass;speed;T", ["12 kg;1.234,5 km/h;-3 °C", "3,5 kg;900km/h;21,5°C", "7;-;0 °C"]).encode(),
        {"mass": [12, 3.5, 7], "speed": [1234.5, 900, None], "T": [-3, 21.5, 0]},
        "gaussian",
        (
            "mass: read as numbers with the unit 'kg'.",
            "speed: read as numbers with the unit 'km/h'.",
            "speed: read as numbers with decimal comma ('1.234,5' is 1234.5).",
            "T: read as numbers with the unit '°C'.",
        ),
    ),
    Case(
        "two units are no unit",
        rows("mass,y", ["12 kg,2.5", "500 g,3.5", "3 kg,-4.5"]).encode(),
        {"mass": ["12 kg", "500 g", "3 kg"]},
        "gaussian",
    ),
    Case(
        "no header, numbers only",
        rows("5.1,3.5,7", ["4.9,3.1,-2.5", "6.2,2.5,0.5"]).encode(),
        {"column_1": [5.1, 4.9, 6.2], "column_3": [7, -2.5, 0.5]},
        "gaussian",
        ("without a header: its columns are called column_1 to column_3",),
    ),
    Case(
        "no header, German numbers and classes",
        rows("12.345,5;rot;ja", ["999;blau;nein", "?;rot;ja"]).encode(),
        {"column_1": [12345.5, 999, None], "column_2": ["rot", "blau"], "column_3": ["ja", "nein", "ja"]},
        "class",
        ("without a header", "decimal comma"),
    ),
    Case(
        "years as names",
        rows("2000,2010,2020", ["4.9,3.1,-2.5", "6.2,2.5,0.5"]).encode(),
        {"2000": [4.9, 6.2], "2020": [-2.5, 0.5]},
        "class",
    ),
    Case(
        "numbers of columns as names",
        rows(",0,1,2", ["a,3.1,7,-2.5", "b,2.5,8,0.5"]).encode(),
        {"column 1": ["a", "b"], "0": [3.1, 2.5], "2": [-2.5, 0.5]},
        "class",
    ),
    Case(
        "names that look like numbers above words",
        rows("24,7", ["a,1.5", "b,-2.5"]).encode(),
        {"24": ["a", "b"], "7": [1.5, -2.5]},
        "class",
    ),
    Case(
        "comments above the header",
        ("# from the balance 2021\n#\n\n" + rows("a;b", ["1,5;2,5", "3,5;-1,5", "0;0"])).encode(),
        {"a": [1.5, 3.5], "b": [2.5, -1.5]},
        "gaussian",
        ("read from line 3 on", "decimal comma"),
    ),
    Case(
        "a title above the header",
        ("Sales 2021\n\n" + rows("a,b,c", ["1.5,2.5,0.5", "3.5,0,-1.5", "1,1,2"])).encode(),
        {"a": [1.5, 3.5, 1], "c": [0.5, -1.5, 2]},
        "gaussian",
        ("read from line 3 on",),
    ),
    Case(
        "thousands separators in quotation marks",
        rows("rooms,price", ['2,"1,234"', '3,"12,345,678"', "4,999"]).encode(),
        {"rooms": [2, 3, 4], "price": [1234, 12345678, 999]},
        "gaussian",
        ("price: read as numbers with thousands separators ('1,234' is 1234).",),
    ),
    Case(
        "dollars",
        rows("age,income", ['31,"$24,000"', '42,"$31,500"', "53,$900"]).encode(),
        {"age": [31, 42, 53], "income": [24000, 31500, 900]},
        "gaussian",
        ("income: read as numbers with currency, thousands separators ('$24,000' is 24000).",),
    ),
    Case(
        "euros behind the number",
        rows("Miete", ["24.000 €", "1.500 €", "-900 €"]).replace("\n", ",1\n").encode().replace(b"Miete,1", b"Miete,x"),
        {"Miete": [24000, 1500, -900]},
        "constant",
        ("Miete: read as numbers with decimal comma, currency",),
    ),
    Case(
        "currency codes",
        rows("cost,y", ["USD 5,1.5", "EUR 7.50,2.5", "12 CHF,3.5"]).encode(),
        {"cost": [5, 7.5, 12], "y": [1.5, 2.5, 3.5]},
        "gaussian",
        ("cost: read as numbers with currency",),
    ),
    Case(
        "percent",
        rows("rate,y", ["15.3%,12 %", "7%,5%", "-2.5%,80.5%"]).encode(),
        {"rate": [0.153, 0.07, -0.025], "y": [0.12, 0.05, 0.805]},
        "beta",
        ("rate: read as numbers with percent signs ('15.3%' is 0.153).",),
    ),
    Case(
        "accounting",
        rows("n,profit", ['1,"(1,200)"', '2,"3,400"', '3,"(50)"']).encode(),
        {"n": [1, 2, 3], "profit": [-1200, 3400, -50]},
        "gaussian",
        ("profit: read as numbers with negatives in parentheses",),
    ),
    Case(
        "minus signs behind the numbers",
        rows("n,profit", ["1,5-", "2,3.5-", "3,7"]).encode(),
        {"n": [1, 2, 3], "profit": [-5, -3.5, 7]},
        "gaussian",
        ("profit: read as numbers with trailing minus signs ('5-' is -5).",),
    ),
    Case(
        "signs and powers of ten",
        rows("a,b", ["−5,+1.5", "+3,1e3", "4,-2.5E-2"]).encode(),
        {"a": [-5, 3, 4], "b": [1.5, 1000, -0.025]},
        "gaussian",
    ),
    Case(
        "many words for missing",
        rows("a,b", ["n.a.,1.5", "NA,2.5", "3,3.5", "#DIV/0!,k.A.", "-,5.5", "unknown,6.5", "7,?"]).encode(),
        {"a": [None, None, 3, None, None, None, 7], "b": [1.5, 2.5, 3.5, None, 5.5, 6.5, None]},
        "gaussian",
        ("a: '-', 'unknown' among numbers taken as missing.",),
    ),
    Case(
        "words of one's own for missing",
        rows("a,b,c", ["1,1.5,keins", "999,2.5,rot", "oje,3.5,blau", "4,4.5,rot"]).encode(),
        {"a": [1, None, None, 4], "b": [1.5, 2.5, 3.5, 4.5], "c": [None, "rot", "blau", "rot"]},
        "class",
        options={"missing": ["oje", "999", "keins"]},
    ),
    Case(
        "one odd word among numbers",
        (rows("a,y", ["1,2.5", "2,3.5", "4,5.5"]) + "see note,4.5\n").encode(),
        {"a": [1, 2, 4], "y": [2.5, 3.5, 5.5]},
        "gaussian",
        ("a: 'see note' among numbers taken as missing.",),
    ),
    Case(
        "plus and minus are classes",
        rows("a,y", ["1.5,+", "2.5,-", "0.5,+"]).encode(),
        {"a": [1.5, 2.5, 0.5], "y": ["+", "-", "+"]},
        "class",
    ),
    Case(
        "a byte order mark",
        rows("x,y", ["1,2.5", "2,3.5", "3,4.5"]).encode("utf-8-sig"),
        {"x": [1, 2, 3], "y": [2.5, 3.5, 4.5]},
        "gaussian",
    ),
    Case(
        "Windows letters",
        rows("Straße;Mängel", ["Grüner Weg – links;1,5", "Große Gasse;2,5", "Überallee;3,5"]).encode("cp1252"),
        {"Straße": ["Grüner Weg – links", "Große Gasse", "Überallee"], "Mängel": [1.5, 2.5, 3.5]},
        "gaussian",
        ("not UTF-8 text: read as Western European",),
    ),
    Case(
        "UTF-16 with tabs, as a spreadsheet writes 'Unicode text'",
        rows("Ort\tWert", ["Köln\t1,5", "Łódź\t2,5", "Αθήνα\t3,5"], "\r\n").encode("utf-16"),
        {"Ort": ["Köln", "Łódź", "Αθήνα"], "Wert": [1.5, 2.5, 3.5]},
        "gaussian",
        ("decimal comma",),
        file="data.txt",
    ),
    Case(
        "tabs",
        rows("a b\ty", ["1,5 x\t2.5", "2,5 y\t3.5", "z\t4.5"]).encode(),
        {"a b": ["1,5 x", "2,5 y", "z"], "y": [2.5, 3.5, 4.5]},
        "gaussian",
        file="data.tsv",
    ),
    Case(
        "pipes",
        rows("a|b, or c|y", ["1|u|2.5", "2|v, w|3.5", "3|u|4.5"]).encode(),
        {"a": [1, 2, 3], "b, or c": ["u", "v, w", "u"], "y": [2.5, 3.5, 4.5]},
        "gaussian",
    ),
    Case(
        "newlines and quotation marks inside cells",
        rows('"two\nlines",y', ['"a\nb",2.5', '"say ""so""",3.5', '"c, d",4.5']).encode(),
        {"two\nlines": ["a\nb", 'say "so"', "c, d"], "y": [2.5, 3.5, 4.5]},
        "gaussian",
    ),
    Case(
        "line ends of old machines, and spaces after commas",
        rows(" x, y", ["1, 2.5", "2, 3.5", "3, 4.5"], "\r").encode(),
        {"x": [1, 2, 3], "y": [2.5, 3.5, 4.5]},
        "gaussian",
    ),
    Case(
        "Excel's line about the separator, compressed",
        gzip.compress(rows("sep=;\nx;y", ["1;2,5", "2;3,5", "3;4,5"]).encode(), mtime=0),
        {"x": [1, 2, 3], "y": [2.5, 3.5, 4.5]},
        "gaussian",
        ("y: read as numbers with decimal comma",),
        file="data.csv.gz",
    ),
    Case(
        "a decimal mark that only its owner knows",
        rows("x,y", ["1,1.500", "2,2.500", "3,3.250"]).encode(),
        {"x": [1, 2, 3], "y": [1500, 2500, 3250]},
        "gaussian",
        ("'1.500' is 1500",),
        options={"decimal": ","},
    ),
]
