"""Encodings that are guessed: right, or refused, but never wrong in silence."""

# ruff: noqa: RUF001, E501 - letters and widths of other scripts

from __future__ import annotations

from pathlib import Path

import pytest
from read_files import read, write

from attribune.data.encodings import detect_encoding
from attribune.data.tables import read_table
from attribune.errors import DataError

TEXTS = {
    "Russian": (
        "Отличный телефон, быстро работает и долго держит заряд. Доставка задержалась на неделю, упаковка повреждена."
    ),
    "Ukrainian": "Чудовий телефон, швидко працює і довго тримає заряд. Не раджу купувати цей товар.",
    "Chinese": "这款手机非常好用，电池续航时间很长。快递晚了一个星期，包装也坏了。",
    "Traditional": "這款手機非常好用，電池續航時間很長。快遞晚了一個星期，包裝也壞了。",
    "Japanese": "このスマートフォンはとても使いやすく、電池も長持ちします。配達が一週間遅れて、箱も壊れていました。",
    "katakana": "アイスランド、ブラジル、チリ、デンマーク、エジプト、フィンランド、ギリシャ、ハイチ",
    "Korean": "이 휴대폰은 정말 좋고 배터리가 오래갑니다. 배송이 일주일 늦었고 포장이 찢어져 있었습니다.",
    "Polish": "Świetny telefon, działa szybko i długo trzyma baterię. Dostawa spóźniła się o tydzień, książka też.",
    "Czech": "Skvělý telefon, funguje rychle a baterie vydrží dlouho. Zásilka přišla o týden později, obal poškozený.",
    "Hungarian": "Kiváló telefon, gyorsan működik és sokáig bírja. A szállítás egy hetet késett, a hőség miatt.",
    "Greek": "Εξαιρετικό τηλέφωνο, λειτουργεί γρήγορα. Η παράδοση άργησε μία εβδομάδα, δεν το προτείνω.",
    "Turkish": "Harika bir telefon, hızlı çalışıyor ve şarjı uzun süre gidiyor. Çok güzel, bir akşamda okudum.",
    "French": "Un très bon téléphone. La livraison a été retardée d'une semaine. À lire, ça m'a beaucoup plu, tôt ou tard.",
    "German": "Läuft schnell und der Akku hält lange. Würde ich nicht noch einmal kaufen, größer als gedacht. Schön.",
    "Spanish": "El envío llegó una semana tarde y el paquete estaba dañado. ¿Por qué lo compré? Se estropeó al año.",
    "Portuguese": "Não recomendo, avariou ao fim de um mês. Informações erradas, a bateria não é boa, mas há pior.",
    "Danish": "Kører hurtigt og batteriet holder længe. Leveringen blev forsinket, og æsken var ødelagt på begge sider.",
    "Hebrew": "טלפון מצוין, עובד מהר והסוללה מחזיקה הרבה זמן. המשלוח התעכב בשבוע והאריזה הייתה פגומה.",
    "Arabic": "هاتف ممتاز يعمل بسرعة والبطارية تدوم طويلا. تأخر التوصيل أسبوعا وكانت العلبة تالفة.",
    "Thai": "โทรศัพท์ดีมาก ทำงานเร็วและแบตเตอรี่ใช้ได้นาน",
    "Lithuanian": "Siuntą pristatė savaite vėliau, o pakuotė buvo pažeista. Nerekomenduoju šio daikto, sugedo per mėnesį.",
    "quotes": "It’s a “nice” film – really… I don’t know why they’ve said “no”, we’re not sure",
    "names": "Björk, Pedro Almodóvar and Penélope Cruz met François Ozon; Søren wasn't there",
}
"""Texts of which each language has some."""


WRITTEN = {
    "cp1251": ["Russian", "Ukrainian"],
    "koi8_r": ["Russian"],
    "cp866": ["Russian"],
    "gb18030": ["Chinese"],
    "big5": ["Traditional"],
    "shift_jis": ["Japanese", "katakana"],
    "euc_jp": ["Japanese"],
    "euc_kr": ["Korean"],
    "cp1250": ["Polish", "Czech", "Hungarian"],
    "iso8859_2": ["Polish"],
    "cp1253": ["Greek"],
    "iso8859_9": ["Turkish"],
    "mac_roman": ["French", "quotes"],
    "cp850": ["French"],
    "cp1255": ["Hebrew"],
    "cp1256": ["Arabic"],
    "cp874": ["Thai"],
    "cp1257": ["Lithuanian"],
    "cp1252": ["French", "German", "Spanish", "Portuguese", "Danish", "names", "quotes"],
}
"""The languages that are written in an encoding."""


@pytest.mark.parametrize(("encoding", "language"), [(one, name) for one, names in WRITTEN.items() for name in names])
def test_the_text_of_an_encoding_is_right(language: str, encoding: str, tmp_path: Path) -> None:
    text = TEXTS[language]
    path = write(tmp_path, "t.csv", f'text,label\n"{text}",good\nplain,bad\n'.encode(encoding))
    assert list(read_table(path)["text"]) == [text, "plain"]
    assert detect_encoding(path, encoding=None).sample in text


@pytest.mark.parametrize(
    "text",
    ["A café", "naïve “quotes”,€5", "Voilà a nice place", "Ein schöner Film", "don’t go there", "El niño", "5 € only"],
)
def test_a_single_word_of_windows_1252_stays_right(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", f"a,b\n{text}{'' if ',' in text else ',x'}\n".encode("cp1252"))
    assert detect_encoding(path, encoding=None).name == "cp1252"


def test_what_may_be_in_several_encodings_is_refused_with_a_sample_of_each(tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", "text,label\nбыстро,good\n".encode("cp1251"))
    with pytest.raises(DataError, match=r"not UTF-8, and may be in several encodings \(.*cp1251 'быстро'.*encoding="):
        read_table(path)
    assert read_table(path, encoding="cp1251")["text"] == ["быстро"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text\ndéjà vu ☕\nZoé\n".encode() + b"bad \xff\n", r"line 4: byte ff .*\(bytes that are not: 1\)"),
        ("text\né\n".encode() + b"\xe9\n", "line 3: byte e9"),
        ("text\n日本語\n".encode() + "日本".encode()[:-1] + b"\n", "line 3: byte e6"),
        ("text\nÀ bientôt déjà\n".encode()[:-1] + b"\xc3", "line 2: byte c3"),
    ],
)
def test_utf_8_but_for_some_bytes_names_line_and_byte(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, "t.csv", content)
    assert "characters beyond ASCII are UTF-8" in str(caught.value)
    assert read(tmp_path, "t.csv", content, encoding="latin-1")["text"]


def test_a_word_late_in_a_large_file_counts(tmp_path: Path) -> None:
    lines = [f"the café number {number}" for number in range(60_000)]
    content = "\n".join(["text", *lines, "Łódź żółw świętość"]).encode("cp1250")
    assert len(content) > 2**20
    assert read(tmp_path, "t.csv", content)["text"][60_000] == "Łódź żółw świętość"
