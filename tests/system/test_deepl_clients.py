"""DeepL's own clients, unmodified, against a server of its interface: `deepl` of Python and `deepl-node`."""

import io
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import deepl
import pytest
from deepl import http_client

from tests.support.serving_deepl import KEY, application, served

NODE_PACKAGE = "deepl-node@1.28.0"
# Prints the answers to a number of calls as one line of JSON.
NODE_PROGRAM = """
const deepl = require('deepl-node');
const fs = require('fs');
const [url, key, source, result] = process.argv.slice(2);
(async () => {
  const client = new deepl.Translator(key, { serverUrl: url, maxRetries: 1 });
  const answers = {};
  answers.texts = (await client.translateText(['one', 'two'], 'en', 'de',
    { splitSentences: 'nonewlines', preserveFormatting: true, formality: 'prefer_less', context: 'c' }))
    .map((each) => [each.text, each.detectedSourceLang, each.billedCharacters]);
  answers.html = (await client.translateText('one', 'en', 'pt-BR', { tagHandling: 'html' })).text;
  answers.sources = (await client.getSourceLanguages()).map((each) => each.code);
  answers.targets = (await client.getTargetLanguages()).map((each) => each.code);
  answers.pairs = (await client.getGlossaryLanguagePairs()).map((each) => [each.sourceLang, each.targetLang]);
  answers.usage = (await client.getUsage()).character.count;
  const entries = new deepl.GlossaryEntries({ entries: { house: 'Haus', dog: 'Hund' } });
  const glossary = await client.createGlossary('mine', 'en', 'de', entries);
  const csv = await client.createGlossaryWithCsv('csv', 'en', 'de', Buffer.from('"a",b\\nc,d'));
  answers.csv = csv.entryCount;
  answers.glossary = [glossary.name, glossary.ready, glossary.entryCount, glossary.sourceLang, glossary.targetLang];
  answers.created = Math.abs(glossary.creationTime.getTime() - Date.now()) < 60000;
  answers.same = (await client.getGlossary(glossary.glossaryId)).name;
  answers.listed = (await client.listGlossaries()).map((each) => each.name);
  answers.entries = (await client.getGlossaryEntries(glossary)).entries();
  answers.with_glossary = (await client.translateText('one', 'en', 'de', { glossary })).text;
  await client.deleteGlossary(glossary);
  await client.deleteGlossary(csv.glossaryId);
  answers.deleted = await client.getGlossary(glossary.glossaryId).catch((error) => error.constructor.name);
  const status = await client.translateDocument(source, result, 'en', 'de');
  answers.document = [status.billedCharacters, fs.readFileSync(result, 'utf8')];
  answers.unsupported = await client.translateText('one', null, 'fr').catch((error) => error.message);
  const multilingual = new deepl.DeepLClient(key, { serverUrl: url, maxRetries: 1 });
  answers.v3 = await multilingual.listMultilingualGlossaries().catch((error) => error.message);
  const stranger = new deepl.Translator('other', { serverUrl: url, maxRetries: 1 });
  answers.stranger = await stranger.getUsage().catch((error) => error.constructor.name);
  console.log(JSON.stringify(answers));
})().catch((error) => { console.error(error); process.exit(1); });
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(application(tmp_path_factory.mktemp("data"))) as url:
        yield url


@pytest.fixture
def client(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[deepl.DeepLClient]:
    # An error of the server is reported by the first request.
    monkeypatch.setattr(http_client, "max_network_retries", 0)
    client = deepl.DeepLClient(KEY, server_url=url)
    yield client
    client.close()  # type: ignore[no-untyped-call]


def test_texts(client: deepl.DeepLClient) -> None:
    before = client.get_usage().character.count or 0
    results = client.translate_text(["Hello", " two words\n"], source_lang="EN", target_lang="DE")
    assert isinstance(results, list)
    assert [(each.text, each.detected_source_lang, each.billed_characters) for each in results] == [
        ("HELLO", "EN", 5),
        (" TWO WORDS\n", "EN", 11),
    ]
    result = client.translate_text(
        "Hello",
        source_lang="de",
        target_lang="EN-US",
        context="a greeting",
        split_sentences="nonewlines",
        preserve_formatting=True,
        formality="prefer_more",
        tag_handling="html",
        tag_handling_version="v2",
        outline_detection=False,
        non_splitting_tags="b",
        splitting_tags=["p", "div"],
        model_type="quality_optimized",
    )
    assert isinstance(result, deepl.TextResult)
    assert (result.text, result.detected_source_lang, result.model_type_used) == ("HELLO", "DE", "quality_optimized")
    usage = client.get_usage()
    assert (usage.character.count or 0) - before == 21
    assert not usage.any_limit_reached


def test_languages(client: deepl.DeepLClient) -> None:
    assert [language.code for language in client.get_source_languages()] == ["DE", "EN"]
    targets = client.get_target_languages()
    assert [language.code for language in targets] == ["DE", "EN-GB", "EN-US", "PT-BR", "PT-PT"]
    assert not any(language.supports_formality for language in targets)
    pairs = client.get_glossary_languages()
    assert [(pair.source_lang, pair.target_lang) for pair in pairs] == [
        *(("de", "en"), ("de", "pt"), ("en", "de"), ("en", "pt")),
    ]


def test_glossaries(client: deepl.DeepLClient) -> None:
    entries = {"house": "Haus", "dog": "Hund"}
    glossary = client.create_glossary("mine", "EN", "DE", entries)
    csv = client.create_glossary_from_csv("csv", "EN-US", "PT-BR", io.StringIO('"a, b",c,EN,PT\nd,e,EN,PT\n'))
    assert (glossary.name, glossary.ready, glossary.source_lang, glossary.target_lang, glossary.entry_count) == (
        *("mine", True, "EN", "DE"),
        2,
    )
    assert client.get_glossary(glossary.glossary_id).creation_time == glossary.creation_time
    assert [each.name for each in client.list_glossaries()] == ["mine", "csv"]
    assert client.get_glossary_entries(glossary) == entries
    assert client.get_glossary_entries(csv.glossary_id) == {"a, b": "c", "d": "e"}
    result = client.translate_text_with_glossary("house", glossary)
    assert isinstance(result, deepl.TextResult)
    assert result.text == "HOUSE"
    client.delete_glossary(glossary)
    client.delete_glossary(csv)
    for call in (client.get_glossary, client.get_glossary_entries, client.delete_glossary):
        with pytest.raises(deepl.GlossaryNotFoundException):
            call(glossary.glossary_id)
    assert client.list_glossaries() == []


TEXT = "Please turn off the light in the kitchen.\nThank you very much for your help.\n"


def test_documents(client: deepl.DeepLClient, tmp_path: Path) -> None:
    source, result = tmp_path / "source.txt", tmp_path / "result.txt"
    source.write_text(TEXT, encoding="utf-8")
    handle = client.translate_document_upload(source.read_bytes(), target_lang="DE", filename="source.txt")
    status = client.translate_document_wait_until_done(handle)
    assert status.error_message is None
    assert (status.done, status.billed_characters) == (True, len(TEXT))
    out = io.BytesIO()
    client.translate_document_download(handle, out)
    assert out.getvalue() == TEXT.upper().encode()
    with pytest.raises(deepl.DeepLException, match="Not found"):
        client.translate_document_download(handle, out)
    client.translate_document_from_filepath(source, result, source_lang="EN", target_lang="DE")
    assert result.read_bytes() == TEXT.upper().encode()
    with pytest.raises(deepl.DeepLException, match=r"documents of type '\.docx' cannot be translated"):
        client.translate_document_upload(b"a", target_lang="DE", filename="a.docx")


def test_what_is_not_built(client: deepl.DeepLClient, url: str) -> None:
    for call in (
        client.list_multilingual_glossaries,
        client.get_all_style_rules,
        lambda: client.rephrase_text("a", target_lang="EN-US"),
        lambda: client.create_multilingual_glossary("a", []),
    ):
        with pytest.raises(deepl.DeepLException, match="does not have this part of the interface") as error:
            call()
        assert error.value.http_status_code == 404
    for target, formality in (("FR", None), ("DE", "more")):
        with pytest.raises(deepl.DeepLException, match="not supported") as error:
            client.translate_text("a", target_lang=target, formality=formality)
        assert error.value.http_status_code == 400
    for parameters in ({"style_rule": "a"}, {"custom_instructions": ["a"]}, {"translation_memory": "a"}):
        with pytest.raises(deepl.DeepLException, match="is not supported by this server") as error:
            client.translate_text("a", source_lang="EN", target_lang="DE", **parameters)
        assert error.value.http_status_code == 400
    with pytest.raises(deepl.AuthorizationException):
        deepl.DeepLClient("other", server_url=url).get_usage()


@pytest.fixture(scope="session")
def node_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with deepl-node and the program that uses it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("node")
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), NODE_PACKAGE]
    installed = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"npm cannot install {NODE_PACKAGE}: {installed.stderr.strip()[-200:]}")
    (folder / "calls.js").write_text(NODE_PROGRAM, encoding="utf-8")
    return folder


@pytest.mark.slow
def test_deepl_node(node_folder: Path, url: str, tmp_path: Path) -> None:
    source = tmp_path / "source.txt"
    source.write_text("größe\n", encoding="utf-8")
    command = ["node", "calls.js", url, KEY, str(source), str(tmp_path / "result.txt")]
    run = subprocess.run(command, cwd=node_folder, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    answers = json.loads(run.stdout)
    assert answers.pop("usage") >= 9
    assert answers.pop("unsupported").startswith("Bad request, message: target_lang 'FR' is not supported")
    assert "does not have this part of the interface" in answers.pop("v3")
    assert answers == {
        "texts": [["ONE", "en", 3], ["TWO", "en", 3]],
        "html": "ONE",
        "sources": ["de", "en"],
        "targets": ["de", "en-GB", "en-US", "pt-BR", "pt-PT"],
        "pairs": [["de", "en"], ["de", "pt"], ["en", "de"], ["en", "pt"]],
        "csv": 2,
        "glossary": ["mine", True, 2, "en", "de"],
        "created": True,
        "same": "mine",
        "listed": ["mine", "csv"],
        "entries": {"house": "Haus", "dog": "Hund"},
        "with_glossary": "ONE",
        "deleted": "GlossaryNotFoundError",
        "document": [6, "GRÖSSE\n"],
        "stranger": "AuthorizationError",
    }
