#!/usr/bin/env python3
"""Writes the site from docs/, the sources and the planner that scripts/site.sh has compiled: make_site.py WASM FOLDER.

Every Markdown file becomes a page, every source file that a page may link to a page in src/. Needs markdown-it-py.
"""
import base64
import functools
import gzip
import html
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import markdown_it

import api_pages
import check_docs

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "docs/site"
BLOCKS = ("live", "predict", "exercise", "beat", "write", "break", "check", "sm")  # languages of code that a script of the site replaces
YAML = pathlib.Path("/usr/share/nodejs/js-yaml/dist/js-yaml.min.js")  # with its licence
PICTURES = (".png", ".svg", ".jpg")
PROGRAMS = {"cpp": ".cpp .h .cu .cuh", "python": ".py", "sh": ".sh", "yaml": ".yaml", "cmake": ".cmake .txt", "js": ".js .css",
            "text": ".json .in .sed .md"}
SOURCE_LIMIT = 150_000  # bytes of a file that is shown
INCLUDED = r'(?<=#include</span> )<span class="string">"([\w./]+)"</span>'
HEAD = """<link rel="stylesheet" href="@ROOT@style.css">
<script>try { document.documentElement.dataset.theme = localStorage.getItem('braid.theme') ?? ''; } catch { /* not kept */ }</script>
<script src="@ROOT@site.js"></script>"""
LANGUAGE = {suffix: language for language, suffixes in PROGRAMS.items() for suffix in suffixes.split()}

# ---- highlighted code

WORDS = {
    "cpp": "alignas auto bool break case catch char class const constexpr continue default delete do double else enum explicit export "
           "extern false final float for friend if inline int long mutable namespace new noexcept nullptr operator override private "
           "protected public requires return short signed sizeof static static_cast struct switch template this throw true try typename "
           "union unsigned using virtual void volatile while",
    "python": "and as assert break class continue def del elif else except False finally for from global if import in is lambda None "
              "nonlocal not or pass raise return True try while with yield",
    "sh": "case do done elif else esac export fi for function if in local return set shift then while",
    "yaml": "true false null auto",
    "cmake": "else elseif endforeach endfunction endif foreach function if include return set",
    "js": "async await break case catch class const continue else false finally for function if in let new null of return switch this "
          "throw true try typeof undefined while yield",
}
STRING = r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
PARTS = {language: re.compile("|".join((
    r"(?P<comment>//[^\n]*|/\*.*?\*/|^[ \t]*#[a-z]+)" if language in ("cpp", "js") else r"(?P<comment>(?<![^\s])#[^\n]*)",
    rf"(?P<string>\"\"\".*?\"\"\"|{STRING})", rf"(?P<word>\b(?:{words.replace(' ', '|')})\b)",
    r"(?P<key>^[ \t-]*[\w.]+(?=:(?:\s|$)))" if language == "yaml" else r"(?P<key>@\w+)",
    r"(?P<number>\b\d[\w.]*)")), re.DOTALL | re.MULTILINE) for language, words in WORDS.items()}


def highlighted(code, language):
    if language not in PARTS:
        return html.escape(code, quote=False)
    text, end = [], 0
    for part in PARTS[language].finditer(code):
        text += [html.escape(code[end:part.start()], quote=False),
                 f'<span class="{part.lastgroup}">{html.escape(part[0], quote=False)}</span>']
        end = part.end()
    return "".join(text) + html.escape(code[end:], quote=False)


# ---- where pages lie

@functools.cache
def sources():
    files = [path for path in check_docs.own_files("*") if path.is_file() and (path.suffix in LANGUAGE or path.name in ("LICENSE", "Doxyfile"))]
    return [path.relative_to(ROOT) for path in files
            if path.suffix != ".md" and path.stat().st_size < SOURCE_LIMIT and "corpus" not in path.parts]


@functools.cache
def shown():
    """The files and folders that have pages, and pictures."""
    documents = [path.relative_to(ROOT) for path in check_docs.own_files("docs/**/*") if path.suffix in (".html", *PICTURES)]
    documents += [path.relative_to(ROOT) for path in check_docs.documents()]
    return {*documents, *sources(), *(folder for path in sources() for folder in path.parents)}


def page_of(path):
    """The page of a file or folder of the repository, both relative to their roots."""
    if path.suffix == ".md":
        page = path.with_name("index.html") if path.name == "README.md" and path.parent.name else path.with_suffix(".html")
        page = pathlib.Path(str(page).lower()) if len(page.parts) == 1 else page
        return page.relative_to("docs") if page.parts[:2] == ("docs", "course") else page
    if path.suffix in PICTURES:
        return path
    if path.parent == pathlib.Path("docs/site") and path.suffix == ".html":
        return pathlib.Path("index.html" if path.name == "home.html" else path.name)
    return pathlib.Path("src") / (path / "index.html" if (ROOT / path).is_dir() else f"{path}.html")


def link(page, target):
    """The address of a page from another one, both relative to the site."""
    return os.path.relpath(target, page.parent)


def moved(page, document, address):
    """An address in a document as its page gives it. What has no page is in a folder that has one."""
    path, _, anchor = address.partition("#")
    if not path or re.match(r"\w+:", path):
        return address
    target = (ROOT / document.parent / path).resolve().relative_to(ROOT)
    target = next(part for part in (target, *target.parents) if part in shown())
    return link(page, page_of(target)) + (f"#{anchor}" if anchor else "")


# ---- Markdown

class Document:
    """A Markdown file as a page: its title, its HTML, and its sections [(level, anchor, heading, text)]."""

    def __init__(self, path):
        self.path, self.page = path, page_of(path)
        self.sections = []
        parser = markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table")
        for name in ("fence", "html_block", "html_inline"):
            parser.renderer.rules[name] = getattr(self, name)
        tokens = parser.parse((ROOT / path).read_text())
        for token, following in zip(tokens, [*tokens[1:], None]):
            if token.type == "heading_open":
                self.add_section(token, following.content)
            elif token.type == "inline":
                self.add_text("".join(child.content if child.type != "softbreak" else " " for child in token.children
                                      if child.type in ("text", "code_inline", "softbreak")))
                for child in token.children:
                    for name in ("href", "src"):
                        if child.attrGet(name):
                            child.attrSet(name, moved(self.page, path, child.attrGet(name)))
            elif token.type == "code_block":
                self.add_text(token.content)
        self.title = self.sections[0][2] if self.sections else path.stem
        self.html = parser.renderer.render(tokens, parser.options, {})
        self.html = self.html.replace("<table>", '<div class="wide" tabindex="0"><table>').replace("</table>", "</table></div>")

    def add_section(self, token, heading):
        anchor = check_docs.anchor(heading)
        used = sum(section[1] == anchor for section in self.sections)
        token.attrSet("id", f"{anchor}-{used}" if used else anchor)
        self.sections.append([int(token.tag[1]), token.attrs["id"], re.sub(r"<!--.*?-->|[`*]|\]\(.*?\)|\[", "", heading), ""])

    def add_text(self, text):
        if self.sections and text != self.sections[-1][2]:
            self.sections[-1][3] += " " + " ".join(text.split())

    def fence(self, tokens, index, options, env):
        language, body = tokens[index].info.strip(), tokens[index].content
        if language in BLOCKS:
            return (f'<div class="block" data-kind="{language}"><script type="text/plain">'
                    f'{body.replace("</", "<" + chr(92) + "/")}</script></div>\n')
        self.add_text(body)
        return f'<pre tabindex="0"><code>{highlighted(body, language)}</code></pre>\n'

    def html_block(self, tokens, index, options, env):
        return re.sub(r"<!--.*?-->\n?", "", tokens[index].content, flags=re.DOTALL)

    html_inline = html_block


# ---- sources

class Source:
    """A page that shows a source file, or lists a folder."""

    def __init__(self, path, entries):
        self.path, self.page = path, page_of(path)
        self.title = str(path) if path.name else "Sources"
        self.sections = [[1, "", self.title, ""]]
        folders = [f'<a href="{link(self.page, page_of(folder))}">{folder.name}</a>/' for folder in [*path.parents][-2::-1]]
        self.html = f"<h1>{''.join(folders)}{path.name or self.title}</h1>\n"
        if entries:
            self.html += "<ul>" + "".join(f'<li><a href="{link(self.page, page_of(entry))}">{entry.name}{"/" if (ROOT / entry).is_dir() else ""}'
                                          "</a></li>\n" for entry in entries) + "</ul>"
        else:
            code = highlighted((ROOT / path).read_text(errors="replace"), LANGUAGE.get(path.suffix))
            self.html += f'<pre tabindex="0"><code>{re.sub(INCLUDED, self.included, code)}</code></pre>'

    def included(self, found):
        path = pathlib.Path(found[1])
        return f'<a href="{link(self.page, page_of(path))}">{found[0]}</a>' if path in shown() else found[0]


def source_pages():
    folders = {}
    for path in sources():
        yield Source(path, [])
        for inner, folder in zip((path, *path.parents), path.parents):
            folders.setdefault(folder, set()).add(inner)
    for folder, entries in folders.items():
        yield Source(folder, sorted(entries, key=lambda entry: ((ROOT / entry).is_file(), entry.name)))


# ---- the site

def filled(text, **values):
    return re.sub(r"@([A-Z_]+)@", lambda name: values.get(name[1], name[0]), text)


def api_pages_of(root):
    """The pages of headers, none without Doxygen."""
    if shutil.which("doxygen") is None:
        print("make_site: no pages of the headers: there is no doxygen")
        return []
    (root / "build").mkdir(exist_ok=True)
    subprocess.run(["doxygen", "docs/Doxyfile"], cwd=root, check=True)
    return api_pages.headers(root / "build/doxygen/xml", root, link)


class Site:
    def __init__(self, folder):
        self.folder = folder
        self.template, self.header = (SOURCE / "page.html").read_text(), (SOURCE / "header.html").read_text()
        self.documents = [Document(path.relative_to(ROOT)) for path in check_docs.documents()]
        self.chapters = [d for d in self.documents if re.match(r"docs/course/\d", str(d.path))]
        self.headers = api_pages_of(ROOT)
        self.sources = list(source_pages())
        self.scripts = [f"{name}.js" for name in "planner code puzzles games beat write break check course".split()]
        self.parts = [SOURCE / f"{name}.html" for name in ("home", "beat", "write", "break")]
        self.pages = {str(page.page) for page in [*self.documents, *self.headers, *self.sources]}
        self.pages |= {"playground.html", *(str(page_of(path.relative_to(ROOT))) for path in self.parts)}
        self.pages |= {"api/index.html"} if self.headers else set()

    def write(self, page, text):
        (self.folder / page).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / page).write_text(text)

    def existing(self, text):
        """A text without the lines that link to a page that this site lacks."""
        return "\n".join(line for line in text.splitlines()
                         if all(page in self.pages for page in re.findall(r'href="(?:@ROOT@)?([\w/.-]+\.html)', line)))

    def around(self, page):
        """What every page has: the values of HEAD, HEADER and ROOT."""
        root = "../" * (len(page.parts) - 1)
        part = f"{page.parts[0]}/index.html" if page.parts[0] in ("docs", "course", "api") else str(page)
        part = "index.html#games" if str(page) in ("beat.html", "write.html", "break.html") else part
        header = self.existing(self.header).replace(f'<a href="@ROOT@{part}"', f'<a href="@ROOT@{part}" aria-current="true"')
        return {"HEAD": filled(HEAD, ROOT=root), "HEADER": filled(header, ROOT=root), "ROOT": root}

    def write_page(self, page, title, body, kind, side="", contents="", scripts=()):
        around, here = self.around(page), f'href="{page.name}"'
        styles = [name for name in (script.replace(".js", ".css") for script in scripts) if (SOURCE / name).exists()]
        self.write(page, filled(
            self.template, **around, TITLE=html.escape(title) + ("" if title == "Braid" else " · Braid"), KIND=kind, BODY=body,
            SIDE=side.replace(here, here + ' aria-current="page"'), CONTENTS=contents,
            STYLES="".join(f'<link rel="stylesheet" href="{around["ROOT"]}{name}">\n' for name in styles),
            SCRIPTS="".join(f'<script defer src="{around["ROOT"]}{name}"></script>\n' for name in scripts)))

    def side_of_documents(self, page):
        """docs/README.md as a list of links; the pages of a folder are below its own."""
        lines, folder = [], page.parent if page.parent.name != "docs" else page.with_suffix("")
        for line in (ROOT / "docs/README.md").read_text().splitlines():
            if group := re.fullmatch(r"\*\*(.*)\*\*", line):
                lines.append(f"<p>{group[1]}</p>")
            elif found := re.match(r"- \[(.*?)\]\(([^):#]*)\)", line):
                target = page_of((ROOT / "docs" / found[2]).resolve().relative_to(ROOT))
                lines.append(link_to(page, target, found[1]))
                if folder.name and folder in (target.parent, target.with_suffix("")):
                    lines += [link_to(page, d.page, d.title, "inner") for d in self.documents
                              if d.page.parent == folder and d.page.name != "index.html"]
        return side_of("Documents", "\n".join(lines))

    def side_of_course(self, page):
        chapters = [f'<li value="{int(d.page.stem[:2])}" data-chapter="{d.page.stem}">{link_to(page, d.page, re.sub(r"^[0-9]+[.:]? *", "", d.title))}</li>'
                    for d in self.chapters]
        return side_of("Chapters", "<p>Course</p>\n<ol>\n" + "\n".join(chapters) + "\n</ol>")

    def side_of_headers(self, page):
        rows = ["<p>Headers</p>", *(link_to(page, other.page, other.page.stem) for other in self.headers if other.page.parent == page.parent)]
        return side_of("Headers", "\n".join(rows))

    def write_documents(self):
        for document in self.documents:
            page, course = document.page, document.page.parts[0] == "course"
            body = document.html
            if document in self.chapters:
                at = self.chapters.index(document)
                others = [(name, self.chapters[other]) for name, other in (("prev", at - 1), ("next", at + 1))
                          if 0 <= other < len(self.chapters)]
                body += '<nav class="around" aria-label="Chapters">' + "".join(
                    f'<a rel="{name}" href="{link(page, other.page)}">{html.escape(other.title)}</a>' for name, other in others) + "</nav>"
            self.write_page(page, document.title, body, "prose course" if course else "prose",
                            self.side_of_course(page) if course else self.side_of_documents(page),
                            contents_of(document), self.scripts if course else ())

    def write_headers(self):
        for page in self.headers:
            self.write_page(page.page, f"{page.title}, API", page.html, "prose api", self.side_of_headers(page.page), contents_of(page))
        index = pathlib.Path("api/index.html")
        body = ["<h1>The public headers</h1>\n<p>What a program that uses Braid includes. Classes, functions and their comments, header by header; "
                '<a href="../docs/cpp/index.html">Braid in C++</a> introduces them.</p>']
        for folder, pages in itertools.groupby(self.headers, lambda page: page.path.parts[0]):
            body.append(f'<h2 id="{folder}">{folder}</h2>\n<div class="wide" tabindex="0"><table>' + "\n".join(
                f"<tr><td>{link_to(index, page.page, page.title)}</td><td>{html.escape(page.summary())}</td></tr>" for page in pages)
                + "</table></div>")
        if self.headers:
            self.write_page(index, "The public headers", "\n".join(body), "prose api")

    def write_parts(self):
        """The pages that are written as the HTML of their main part."""
        for path in self.parts:
            body, page = path.read_text(), page_of(path.relative_to(ROOT))
            kind, title = ("home", "Braid") if path.name == "home.html" else ("games", re.search("<h1>(.*)</h1>", body)[1])
            self.write_page(page, title, filled(self.existing(body), ROOT=""), kind, scripts=self.scripts)

    def write_playground(self):
        """The page with a layout that is not the template's gets what every page has."""
        page, text = pathlib.Path("playground.html"), (SOURCE / "playground.html").read_text()
        for tag, more in (("</title>", "</title>\n@HEAD@"), ("<body>", "<body>\n@HEADER@"), ("<h1", '<h1 id="site-content"')):
            text = text.replace(tag, more, 1)
        files = {"PLAN_CSS": ROOT / "train/report/page/plan_page.css", "PLAYGROUND_CSS": SOURCE / "playground.css",
                 "PLAYGROUND_JS": SOURCE / "playground.js"}
        self.write(page, filled(text, **self.around(page), **{name: file.read_text() for name, file in files.items()}))

    def write_assets(self, wasm):
        for path in [*SOURCE.glob("*.js"), *SOURCE.glob("*.css")]:
            self.write(path.name, path.read_text())
        packed = base64.b64encode(gzip.compress(wasm.read_bytes(), mtime=0)).decode()
        constants = f"const PLANNER_GZIP = '{packed}';\nconst CPU = {(ROOT / 'docs/two-cores.json').read_text()};\n"
        self.write("planner.js", (SOURCE / "planner.js").read_text() + constants)
        if not YAML.is_file():
            sys.exit(f"make_site: there is no {YAML}: install node-js-yaml, as scripts/setup.sh --tests does")
        self.write("js-yaml.js", YAML.read_text())
        self.write("local.json", '{"files": {}, "runs": []}')  # 'braid playground' answers with what its machine has
        tokens = re.findall(r":root \{(.*?)\n *\}", (ROOT / "train/report/page/plan_page.css").read_text(), re.DOTALL)
        self.write("style.css", filled((SOURCE / "style.css").read_text(), LIGHT=tokens[0], DARK=tokens[1]))
        for path in shown():
            if path.suffix in PICTURES:
                (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / path, self.folder / path)

    def write_search(self):
        """The sections of all pages, for site.js: [page, title, [[anchor, heading, text], …]], or the path of a source."""
        found = [[str(page.page), page.title, [section[1:] for section in page.sections]]
                 for page in [*self.documents, *self.headers]] + [str(page.path) for page in self.sources if page.path.suffix]
        self.write("search.js", f"const SEARCH = {json.dumps(found, ensure_ascii=False, separators=(',', ':'))};\n")


def link_to(page, target, text, kind=""):
    return f'<a {f"class={kind} " if kind else ""}href="{link(page, target)}">{html.escape(text)}</a>'


def side_of(label, body):
    return f'<nav class="side" aria-label="{label}">{body}</nav>'


def contents_of(document):
    headings = [section for section in document.sections if section[0] in (2, 3)]
    links = "".join(f'<a class="level-{level}" href="#{anchor}">{html.escape(heading)}</a>\n' for level, anchor, heading, _ in headings)
    return f'<nav class="contents" aria-label="On this page"><p>On this page</p>{links}</nav>' if len(headings) > 2 else ""


def main():
    wasm, folder = map(pathlib.Path, sys.argv[1:])
    site = Site(folder)
    site.write_assets(wasm)
    site.write_parts()
    site.write_playground()
    site.write_documents()
    site.write_headers()
    for page in site.sources:
        site.write_page(page.page, page.title, page.html, "source")
    site.write_search()
    files = [path for path in folder.rglob("*") if path.is_file()]
    print(f"{folder}: {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
