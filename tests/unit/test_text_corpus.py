"""Reading examples: formats, columns, encodings; labels exactly as written."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import GnomonError
from gnomon.text.corpus import decode_texts, read_examples, read_texts
from gnomon.text.examples import Example, ExampleSet

ROWS = [("good film", "pos"), ("bad film", "neg"), ("a fine, long film", "pos"), ("dull", "neg"), ("so good", "pos")]


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def pairs(examples: ExampleSet) -> list[tuple[str, str | None]]:
    return [(example.text, example.label) for example in examples.examples]


def as_csv(rows: list[tuple[str, ...]], delimiter: str = ",", terminator: str = "\r\n", **options: int) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter, lineterminator=terminator, **options).writerows(rows)  # type: ignore[arg-type]
    return buffer.getvalue()


class TestColumns:
    @pytest.mark.parametrize(
        ("header", "text", "label"),
        [
            (("text", "label"), 0, 1),
            (("Label", " Text "), 1, 0),
            (("id", "sentence", "category"), 1, 2),
            (("title", "content", "类别"), 1, 2),
            (("标签", "文本"), 1, 0),
            (("question", "intent_name"), 0, 1),
            (("text_id", "utterance", "label_id", "label_name"), 1, 3),
            (("question", "type"), 0, 1),
        ],
    )
    def test_by_name(self, tmp_path: Path, header: tuple[str, ...], text: int, label: int) -> None:
        rows = [tuple(f"{name}{number}" for name in header) for number in range(8)]
        found = read_examples(write(tmp_path, "a.csv", as_csv([header, *rows])))
        assert pairs(found) == [(row[text], row[label]) for row in rows]
        assert found.decisions[0] == f"column {header[text].strip()!r} is the text"
        assert found.decisions[1] == f"column {header[label].strip()!r} is the label (8 values)"

    def test_as_asked(self, tmp_path: Path) -> None:
        path = write(tmp_path, "a.csv", "text,label,Extra\nx,y,z\nu,v,w\n")
        assert pairs(read_examples(path, text_column="extra", label_column="1")) == [("z", "x"), ("w", "u")]
        assert "as asked" in read_examples(path, text_column="Extra").decisions[0]

    def test_wrong_name(self, tmp_path: Path) -> None:
        path = write(tmp_path, "a.csv", "text,label\nx,y\n")
        for column, match in (("txet", "no column 'txet'"), ("3", "no column 3")):
            with pytest.raises(GnomonError, match=match):
                read_examples(path, text_column=column)
        with pytest.raises(GnomonError) as caught:
            read_examples(path, text_column="txet")
        assert "did you mean 'text'?" in caught.value.hint
        with pytest.raises(GnomonError, match="cannot be both"):
            read_examples(path, text_column="label", label_column="label")

    def test_undecidable(self, tmp_path: Path) -> None:
        rows = [
            (f"left words {n}", f"right words {n}", "a" if n % 2 else "b", "c" if n % 3 else "d") for n in range(30)
        ]
        path = write(tmp_path, "a.csv", as_csv([("left", "right", "one", "two"), *rows]))
        with pytest.raises(GnomonError, match="'left', 'right', 'one', 'two'") as caught:
            read_examples(path)
        assert "--text-column and --label-column" in caught.value.hint
        with pytest.raises(GnomonError, match="holds the label"):
            read_examples(path, text_column="left")
        assert len(read_examples(path, text_column="left", label_column="two")) == 30

    def test_by_content_without_header(self, tmp_path: Path) -> None:
        path = write(tmp_path, "a.csv", as_csv([(label, text) for text, label in ROWS]))
        found = read_examples(path)
        assert pairs(found) == ROWS
        assert "no header" in found.decisions[0]
        assert found.decisions[1:] == (
            "column number 2 is the text, by its content",
            "column number 1 is the label, by its content (2 values)",
        )
        with pytest.raises(GnomonError, match="has no column 'x'"):
            read_examples(path, text_column="x")

    def test_unknown_header_is_told_by_its_label(self, tmp_path: Path) -> None:
        rows = [("left", "right"), *[(f"some words {number}", "ab"[number % 2]) for number in range(20)]]
        assert len(read_examples(write(tmp_path, "a.csv", as_csv(rows)))) == 20

    def test_label_that_is_a_known_name_is_no_header(self, tmp_path: Path) -> None:
        rows = [(f"some words {number}", ("question", "statement")[number % 2]) for number in range(20)]
        assert len(read_examples(write(tmp_path, "a.csv", as_csv(rows)))) == 20

    def test_unlabelled_needs_only_the_text(self, tmp_path: Path) -> None:
        path = write(tmp_path, "a.csv", "id,review\n1,fine\n2,bad\n")
        assert pairs(read_texts(path)) == [("fine", None), ("bad", None)]
        assert read_texts(path).label_names == ()
        assert read_texts(write(tmp_path, "b.csv", "one text\nanother\n")).texts == ("one text", "another")


class TestCsv:
    def test_lines_are_cut_at_line_feeds_alone(self, tmp_path: Path) -> None:
        rows = [("a\u2028b", "x"), ("c\u0085d", "y"), ("e\x0bf\x0cg\x1ch", "x"), ("two\nlines", "y"), ("cr\r\nlf", "x")]
        for terminator in ("\n", "\r\n"):
            found = read_examples(write(tmp_path, "a.csv", as_csv([("text", "label"), *rows], terminator=terminator)))
            assert pairs(found) == rows
            assert [example.line for example in found.examples] == [2, 3, 4, 5, 7]

    @pytest.mark.parametrize("label", ["NA", "None", "null", "true", "01", "nan", "1.0", "N/A", "-", " padded "])
    def test_labels_are_text(self, tmp_path: Path, label: str) -> None:
        path = write(tmp_path, "a.csv", as_csv([("text", "label"), ("x", label), ("y", "other")]))
        assert read_examples(path).labels == (label, "other")

    @pytest.mark.parametrize("mark", [";", "\t", "|"])
    def test_other_delimiters(self, tmp_path: Path, mark: str) -> None:
        path = write(tmp_path, "a.csv", as_csv([("text", "label"), *ROWS], delimiter=mark))
        found = read_examples(path)
        assert pairs(found) == ROWS
        assert repr(mark) in found.decisions[0]

    @settings(deadline=None, derandomize=True, max_examples=60)
    @given(
        rows=st.lists(
            st.tuples(
                st.text(st.characters(exclude_characters="\0\r", exclude_categories=("Cs",)), min_size=1, max_size=12),
                st.sampled_from(["a", "b,c", 'd"e']),
            ).filter(lambda row: row[0].strip()),
            min_size=1,
            max_size=6,
        )
    )
    def test_whatever_csv_writes_is_read_back(
        self, tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
    ) -> None:
        folder = tmp_path_factory.mktemp("rows")
        assert pairs(read_examples(write(folder, "a.csv", as_csv([("text", "label"), *rows])))) == rows
        quoted = as_csv([("text", "label"), *rows], delimiter="\t", quoting=csv.QUOTE_ALL)
        assert pairs(read_examples(write(folder, "b.tsv", quoted))) == rows
        lines = "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows)
        assert pairs(read_examples(write(folder, "c.jsonl", lines))) == rows
        document = json.dumps([{"text": text, "label": label} for text, label in rows], indent=1)
        assert pairs(read_examples(write(folder, "d.json", document))) == rows


class TestTsv:
    def test_quotes_that_do_not_quote(self, tmp_path: Path) -> None:
        content = 'text\tlabel\n"good" film\tpos\n"open quote\tneg\nnine inch 9"\tpos\n"whole"\tneg\n'
        texts = read_examples(write(tmp_path, "a.tsv", content)).texts
        assert texts == ('"good" film', '"open quote', 'nine inch 9"', '"whole"')

    def test_lone_quoted_words_stay(self, tmp_path: Path) -> None:
        assert read_examples(write(tmp_path, "a.tsv", 'text\tlabel\n"whole"\tpos\nplain\tneg\n')).texts[0] == '"whole"'

    def test_quotes_that_quote(self, tmp_path: Path) -> None:
        rows = [('he said "no"', "neg"), ("two\nlines", "pos"), ("tab\there", "neg")]
        path = write(tmp_path, "a.tsv", as_csv([("text", "label"), *rows], delimiter="\t"))
        assert pairs(read_examples(path)) == rows
        path = write(tmp_path, "b.tsv", as_csv([("text", "label"), rows[0], *ROWS], delimiter="\t"))
        assert read_examples(path).texts[0] == 'he said "no"'


class TestTextLines:
    def test_label_first(self, tmp_path: Path) -> None:
        lines = [f"{('NUM:date', 'HUM:ind')[number % 2]} What is  the {number} ?" for number in range(30)]
        found = read_examples(write(tmp_path, "a.txt", "\r\n".join(lines) + "\r\n\r\n"))
        assert pairs(found)[:2] == [("What is  the 0 ?", "NUM:date"), ("What is  the 1 ?", "HUM:ind")]
        assert "first word is the label" in found.decisions[0]

    def test_label_last(self, tmp_path: Path) -> None:
        lines = "\n".join(f"the number {number} is {('even', 'odd')[number % 2]}" for number in range(30))
        found = read_examples(write(tmp_path, "a.txt", lines))
        assert pairs(found)[:2] == [("the number 0 is", "even"), ("the number 1 is", "odd")]
        assert "last word" in found.decisions[0]

    def test_fasttext_labels_in_a_small_file(self, tmp_path: Path) -> None:
        found = read_examples(write(tmp_path, "a.txt", "__label__x good film\n__label__y bad\n"))
        assert pairs(found) == [("good film", "__label__x"), ("bad", "__label__y")]

    def test_as_asked(self, tmp_path: Path) -> None:
        path = write(tmp_path, "a.txt", "x one two\ny three four\n")
        with pytest.raises(GnomonError, match="look like labels") as caught:
            read_examples(path)
        assert "--label-column 1" in caught.value.hint
        assert pairs(read_examples(path, label_column="1")) == [("one two", "x"), ("three four", "y")]
        assert pairs(read_examples(path, label_column="2")) == [("x one", "two"), ("y three", "four")]

    def test_tabs(self, tmp_path: Path) -> None:
        found = read_examples(write(tmp_path, "a.txt", "".join(f"{text}\t{label}\n" for text, label in ROWS)))
        assert pairs(found) == ROWS

    def test_unlabelled_lines(self, tmp_path: Path) -> None:
        found = read_texts(write(tmp_path, "a.txt", "one\ttab \n\n  two\u2028lines\r\n"))
        assert found.texts == ("one\ttab ", "  two\u2028lines")
        assert [example.line for example in found.examples] == [1, 3]

    def test_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert decode_texts(b"a\nb", source="standard input").texts == ("a", "b")
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("我\n喜欢\n".encode())))
        assert read_texts("-").texts == ("我", "喜欢")


class TestJson:
    def test_values_as_written(self, tmp_path: Path) -> None:
        content = '{"text": "a", "label": true}\n{"text": "b", "label": 01.50}\n'.replace("01.50", "1.50")
        content += '{"label": -7, "text": "c"}\n{"text": 12, "label": "null"}\n{"text": "e", "label": 1e400}\n'
        found = read_examples(write(tmp_path, "a.jsonl", content))
        assert pairs(found) == [("a", "true"), ("b", "1.50"), ("c", "-7"), ("12", "null"), ("e", "1e400")]

    def test_null_is_missing(self, tmp_path: Path) -> None:
        path = write(tmp_path, "a.jsonl", '{"text": "a", "label": "x"}\n{"text": "b", "label": null}\n{"text": "c"}\n')
        with pytest.raises(GnomonError, match=r"a\.jsonl:2: the label is missing"):
            read_examples(path)
        skipped = read_examples(path, on_bad_row="skip")
        assert [row.line for row in skipped.bad_rows] == [2, 3]

    def test_half_surrogates_are_replaced_and_counted(self, tmp_path: Path) -> None:
        content = '{"text": "a \\ud83d b", "label": "x"}\n{"text": "\\ud83d\\ude00", "label": "\\udc00y"}\n'
        found = read_examples(write(tmp_path, "a.jsonl", content))
        assert pairs(found) == [("a \ufffd b", "x"), ("😀", "\ufffdy")]
        assert "2 half surrogate pairs" in found.decisions[-1]
        path = write(tmp_path, "b.jsonl", '{"text": "\\ud83d", "label": null}\n{"text": "b", "label": "y"}\n')
        assert read_examples(path, on_bad_row="skip").bad_rows[0].value == "\ufffd | "

    def test_list_of_objects_with_their_lines(self, tmp_path: Path) -> None:
        content = '\n[ {"text": "a",\n  "label": "x"},\n\n  {"text": "b", "label": "y"}\n]\n'
        assert read_examples(write(tmp_path, "a.json", content)).examples == (
            Example("a", "x", 2),
            Example("b", "y", 5),
        )

    def test_json_lines_under_another_name(self, tmp_path: Path) -> None:
        content = '{"text": "a", "label": "x"}\n{"text": "b", "label": "y"}\n'
        assert pairs(read_examples(write(tmp_path, "a.json", content))) == [("a", "x"), ("b", "y")]

    @pytest.mark.parametrize(
        ("content", "match"),
        [
            ('{"train": [["a", "x"]], "test": []}', "an object with the keys 'train', 'test', the first with a list"),
            ('"text"', "holds a string"),
            ('[{"text": "a", "label": "x"} {"text"', "malformed JSON in the value that starts in line 1"),
            ('[{"text": "a", "label": "x"}', "malformed JSON"),
            ('[{"text": "a", "label": "x"}] 5', "goes on after the end"),
            ('{"text": ', "malformed JSON"),
            ("[]", "is empty"),
            (" \n", "is empty"),
        ],
    )
    def test_other_shapes_are_described(self, tmp_path: Path, content: str, match: str) -> None:
        with pytest.raises(GnomonError, match=match):
            read_examples(write(tmp_path, "a.json", content))

    @pytest.mark.parametrize(
        ("line", "match"),
        [
            ('{"text": ["a"], "label": "x"}', "the text is a list"),
            ('{"text": "a", "label": ["x", "y"]}', "the label is a list"),
            ('["a", "x"]', "a list where an object"),
            ("nonsense", "not a JSON object on one line"),
        ],
    )
    def test_bad_lines(self, tmp_path: Path, line: str, match: str) -> None:
        good = '{"text": "a", "label": "x"}\n'
        with pytest.raises(GnomonError, match=f"a.jsonl:2: {match}"):
            read_examples(write(tmp_path, "a.jsonl", good + line + "\n" + good))


class TestParquet:
    def write(self, folder: Path, columns: dict[str, list[object]], metadata: dict[str, str] | None = None) -> Path:
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        table = arrow.table(columns)
        if metadata:
            table = table.replace_schema_metadata(metadata)
        parquet.write_table(table, folder / "a.parquet", row_group_size=1000)
        return folder / "a.parquet"

    def test_columns_and_types(self, tmp_path: Path) -> None:
        path = self.write(
            tmp_path,
            {
                "vector": [[1.0]] * 3000,
                "sentence": [f"t{n}" for n in range(3000)],
                "label": [n % 2 == 0 for n in range(3000)],
            },
        )
        found = read_examples(path)
        assert found.examples[2999] == Example("t2999", "false", 3000)
        assert found.label_names == ("false", "true")

    def test_names_of_classes(self, tmp_path: Path) -> None:
        features = {"info": {"features": {"label": {"names": ["neg", "pos"], "_type": "ClassLabel"}}}}
        path = self.write(tmp_path, {"text": ["a", "b"], "label": [1, 0]}, {"huggingface": json.dumps(features)})
        found = read_examples(path)
        assert found.labels == ("pos", "neg")
        assert "named as the file's own list says" in found.decisions[0]

    def test_missing_and_damaged(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, {"text": ["a", None, "c"], "label": [1, 0, None]})
        with pytest.raises(GnomonError, match=r"a\.parquet:2: the text is empty"):
            read_examples(path)
        assert pairs(read_examples(path, on_bad_row="skip")) == [("a", "1")]
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(GnomonError, match="cannot be read as Parquet"):
            read_examples(path)


class TestEncodings:
    CONTENT = as_csv([("文本", "标签"), ("我非常喜欢", "好"), ("价格太贵了", "坏")])

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
    def test_understood(self, tmp_path: Path, encoding: str) -> None:
        path = write(tmp_path, "a.csv", self.CONTENT.encode(encoding))
        assert pairs(read_examples(path)) == [("我非常喜欢", "好"), ("价格太贵了", "坏")]
        assert pairs(read_examples(path, encoding=encoding)) == pairs(read_examples(path))

    @pytest.mark.parametrize("encoding", ["gb18030", "big5", "utf-16-be", "utf-16-le"])
    def test_asked_for(self, tmp_path: Path, encoding: str) -> None:
        path = write(
            tmp_path, "a.csv", "\r\n".join(["text,label", "中文", "一,二"]).replace("中文", "三,四").encode(encoding)
        )
        assert pairs(read_examples(path, encoding=encoding)) == [("三", "四"), ("一", "二")]

    def test_gzip(self, tmp_path: Path) -> None:
        path = write(tmp_path, "a.csv.gz", gzip.compress(self.CONTENT.encode()))
        assert len(read_examples(path)) == 2
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(GnomonError, match="damaged gzip"):
            read_examples(path)

    def test_a_chunk_may_end_anywhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for size in range(5, 12):
            monkeypatch.setattr("gnomon.text.encodings._CHUNK", size)
            for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
                path = write(tmp_path, "a.csv", self.CONTENT.encode(encoding))
                assert pairs(read_examples(path)) == [("我非常喜欢", "好"), ("价格太贵了", "坏")]


class TestRealFiles:
    def test_questions(self, demo_questions: Path) -> None:
        found = read_examples(demo_questions)
        assert (len(found), len(found.label_names)) == (15452, 50)
        assert found.examples[0] == Example("How did serfdom develop in and then leave Russia ?", "DESC:manner", 1)

    @pytest.mark.parametrize(
        ("name", "encoding", "rows", "labels"),
        [
            ("raw/trec/TREC.train.all", "latin-1", 5452, 6),
            ("raw/trec/TREC.test.all", None, 500, 6),
            ("raw/sst2-tsv/train.tsv", None, 6920, 2),
            ("raw/thucnews-10/dev.txt", None, 10000, 10),
            ("banking77/train.csv", None, 10003, 77),
            ("clinc150/test.csv", None, 4500, 150),
            ("thucnews/test.csv", None, 10000, 10),
        ],
    )
    def test_as_people_have_them(self, shared: Path, name: str, encoding: str | None, rows: int, labels: int) -> None:
        found = read_examples(shared / name, encoding=encoding)
        assert (len(found), len(found.label_names)) == (rows, labels)

    def test_one_latin_byte(self, shared: Path) -> None:
        with pytest.raises(GnomonError, match=r"TREC\.train\.all:66: byte 3173 of the file \(0xF0\)") as caught:
            read_examples(shared / "raw/trec/TREC.train.all")
        assert "it may be latin-1" in caught.value.hint

    def test_nested_json(self, shared: Path) -> None:
        with pytest.raises(GnomonError, match="the keys 'oos_val', 'val', 'train'"):
            read_examples(shared / "raw/clinc150_full.json")
