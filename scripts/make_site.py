#!/usr/bin/env python3
"""Writes the site from docs/, the sources and the planner that scripts/site.sh has compiled: make_site.py WASM FOLDER.

Every Markdown file becomes a page, every source file that a page may link to a page in src/. Needs markdown-it-py.
"""
import base64
import gzip
import html
import os
import pathlib
import re
import sys

import markdown_it

import check_docs

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "docs/site"
BLOCKS = ("live", "predict", "exercise", "beat", "write", "break", "sm")  # languages of code that a script of the site replaces
PICTURES = (".png", ".svg", ".jpg")
PROGRAMS = {"cpp": ".cpp .h .cu .cuh", "python": ".py", "sh": ".sh", "yaml": ".yaml", "cmake": ".cmake .txt", "js": ".js .css",
            "text": ".json .in .sed .md"}
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

def page_of(path):
    """The page of a file or folder of the repository, both relative to their roots."""
    if path.suffix == ".md":
        page = path.with_name("index.html") if path.name == "README.md" and path.parent.name else path.with_suffix(".html")
        page = pathlib.Path(str(page).lower()) if len(page.parts) == 1 else page
        return page.relative_to("docs") if page.parts[:2] == ("docs", "course") else page
    if path.suffix in PICTURES:
        return path
    return pathlib.Path("src") / (path / "index.html" if (ROOT / path).is_dir() else f"{path}.html")


def link(page, target):
    """The address of a page from another one, both relative to the site."""
    return os.path.relpath(target, page.parent)


def moved(page, document, address):
    """An address in a document as its page gives it."""
    path, _, anchor = address.partition("#")
    if not path or re.match(r"\w+:", path):
        return address
    target = (ROOT / document.parent / path).resolve().relative_to(ROOT)
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


# ---- the site

def filled(text, **values):
    return re.sub(r"@([A-Z_]+)@", lambda name: values.get(name[1], name[0]), text)


class Site:
    def __init__(self, folder):
        self.folder = folder
        self.template, self.header = (SOURCE / "page.html").read_text(), (SOURCE / "header.html").read_text()
        self.documents = [Document(path.relative_to(ROOT)) for path in check_docs.documents()]
        self.chapters = [d for d in self.documents if re.match(r"docs/course/\d", str(d.path))]
        self.scripts = [path.name for path in (SOURCE / "planner.js", SOURCE / "games.js", SOURCE / "course.js") if path.exists()]

    def write(self, page, text):
        (self.folder / page).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / page).write_text(text)

    def write_page(self, page, title, body, kind, side="", contents="", scripts=()):
        root = "../" * (len(page.parts) - 1)
        header = filled(self.header, ROOT=root)
        here = f'href="{link(page, page)}"'
        self.write(page, filled(
            self.template, TITLE=html.escape(title) + ("" if title == "Braid" else " · Braid"), KIND=kind, BODY=body, HEADER=header,
            SIDE=side.replace(here, here + ' aria-current="page"'), CONTENTS=contents, ROOT=root,
            STYLES="".join(f'<link rel="stylesheet" href="{root}{name}">\n' for name in
                           [script.replace(".js", ".css") for script in scripts] if (SOURCE / name).exists()),
            SCRIPTS="".join(f'<script defer src="{root}{name}"></script>\n' for name in scripts)))

    def side_of_documents(self, page):
        """docs/README.md as a list of links; the pages of a folder are below its own."""
        lines, folder = [], page.parent if page.parent.name != "docs" else page.with_suffix("")
        for line in (ROOT / "docs/README.md").read_text().splitlines():
            if group := re.fullmatch(r"\*\*(.*)\*\*", line):
                lines.append(f"<p>{group[1]}</p>")
            elif found := re.match(r"- \[(.*?)\]\(([^):#]*)\)", line):
                target = page_of((ROOT / "docs" / found[2]).resolve().relative_to(ROOT))
                lines.append(f'<a href="{link(page, target)}">{html.escape(found[1])}</a>')
                if folder.name and folder in (target.parent, target.with_suffix("")):
                    lines += [f'<a class="inner" href="{link(page, d.page)}">{html.escape(d.title)}</a>' for d in self.documents
                              if d.page.parent == folder and d.page.name != "index.html"]
        return "\n".join(lines)

    def side_of_course(self, page):
        return "<p>Course</p>\n<ol>\n" + "\n".join(
            f'<li data-chapter="{d.page.stem}"><a href="{link(page, d.page)}">{html.escape(re.sub(r"^[0-9]+[.:]? *", "", d.title))}</a></li>'
            for d in self.chapters) + "\n</ol>"

    def write_documents(self):
        for document in self.documents:
            page, course = document.page, document.page.parts[0] == "course"
            side = self.side_of_course(page) if course else self.side_of_documents(page)
            headings = [section for section in document.sections if section[0] in (2, 3)]
            contents = "".join(f'<a class="level-{level}" href="#{anchor}">{html.escape(heading)}</a>\n'
                               for level, anchor, heading, _ in headings)
            body = document.html
            if document in self.chapters:
                at = self.chapters.index(document)
                body += '<nav class="around" aria-label="Chapters">' + "".join(
                    f'<a rel="{name}" href="{link(page, self.chapters[other].page)}">{html.escape(self.chapters[other].title)}</a>'
                    for name, other in (("prev", at - 1), ("next", at + 1)) if 0 <= other < len(self.chapters)) + "</nav>"
            self.write_page(page, document.title, body, "prose course" if course else "prose",
                            f'<nav class="side" aria-label="{"Chapters" if course else "Documents"}">{side}</nav>',
                            f'<nav class="contents" aria-label="On this page"><p>On this page</p>{contents}</nav>'
                            if len(headings) > 2 else "", self.scripts if course else ())

    def copy_pictures(self):
        for path in check_docs.own_files("docs/**/*"):
            if path.suffix in PICTURES:
                target = self.folder / page_of(path.relative_to(ROOT))
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(path.read_bytes())

    def write_assets(self, wasm):
        for path in [*SOURCE.glob("*.js"), *SOURCE.glob("*.css")]:
            self.write(path.name, path.read_text())
        packed = base64.b64encode(gzip.compress(wasm.read_bytes(), mtime=0)).decode()
        constants = f"const PLANNER_GZIP = '{packed}';\nconst CPU = {(ROOT / 'docs/two-cores.json').read_text()};\n"
        self.write("planner.js", (SOURCE / "planner.js").read_text() + constants)
        tokens = re.findall(r":root \{(.*?)\n *\}", (ROOT / "train/report/page/plan_page.css").read_text(), re.DOTALL)
        self.write("style.css", filled((SOURCE / "style.css").read_text(), LIGHT=tokens[0], DARK=tokens[1]))

    def write_playground(self):
        page = (SOURCE / "playground.html").read_text()
        for name, file in (("PLAN_CSS", ROOT / "train/report/page/plan_page.css"), ("PLAYGROUND_CSS", SOURCE / "playground.css"),
                           ("PLAYGROUND_JS", SOURCE / "playground.js")):
            page = page.replace(f"@{name}@", file.read_text())
        self.write("playground.html", page)

    def write_games(self):
        for name in ("beat.html", "write.html", "break.html"):
            body = (SOURCE / name).read_text()
            title = re.search("<h1>(.*)</h1>", body)[1]
            self.write_page(pathlib.Path(name), title, body, "games", scripts=("planner.js", "games.js"))


def main():
    wasm, folder = map(pathlib.Path, sys.argv[1:])
    site = Site(folder)
    site.write_assets(wasm)
    site.write_playground()
    site.write_games()
    site.write_documents()
    site.copy_pictures()


if __name__ == "__main__":
    main()
