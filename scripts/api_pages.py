"""Pages of the public headers, one a header, made of the XML that doxygen docs/Doxyfile writes."""
import collections
import html
import pathlib
import re
import xml.etree.ElementTree

TAGS = {"para": "p", "computeroutput": "code", "verbatim": "pre", "itemizedlist": "ul", "listitem": "li"}
SHOWN = ("function", "variable", "typedef", "enum")  # no friends and macros


def text_of(element):
    return " ".join("".join(element.itertext()).split()) if element is not None else ""


class Symbol:
    """A class, or a member of a class or a namespace, as its lines in the XML say."""

    def __init__(self, element, owner=""):
        self.element, self.owner, self.kind = element, owner, element.get("kind")
        location = element.find("location")
        self.file, self.line = location.get("declfile") or location.get("file"), int(location.get("declline") or location.get("line"))
        name = text_of(element.find("compoundname")) or text_of(element.find("name"))
        self.name = re.sub(r"^braid::", "", name)
        self.members = []
        self.anchor = ""

    def is_shown(self):
        return self.element.get("prot") != "private" and "@" not in self.name and "anonymous" not in self.name

    def signature(self):
        def find(tag):
            return text_of(self.element.find(tag))

        if self.kind == "enum":
            return f"enum {self.name}"
        template = ", ".join(text_of(part).replace(" >", ">") for part in self.element.findall("templateparamlist/param"))
        if self.kind in ("class", "struct"):
            bases = ", ".join(re.sub(r"^braid::", "", text_of(base)) for base in self.element.findall("basecompoundref"))
            code = f"{self.kind} {self.name}" + (f" : {bases}" if bases else "")
        else:
            initial = find("initializer") if self.kind == "variable" and len(find("initializer")) < 60 else ""
            code = f"{find('type')} {self.name}{find('argsstring')} {initial}".strip()
        return re.sub(r"< | >", lambda found: found[0].strip(), (f"template <{template}> " if template else "") + code)

    def descriptions(self):
        return [part for tag in ("briefdescription", "detaileddescription") for part in self.element.findall(f"{tag}/*")]

    def summary(self):
        return " ".join(map(text_of, self.descriptions()))


class Header:
    """The page of a header: title, HTML, and sections [(level, anchor, heading, text)] as those of a document."""

    def __init__(self, file, root):
        self.path, self.page, self.title = pathlib.Path(file), pathlib.Path("api") / f"{file}.html", file
        comment = re.match(r"#pragma once\n((?://.*\n)*)", (root / file).read_text())
        self.comment = " ".join(line.lstrip("/ ") for line in comment[1].splitlines()) if comment else ""
        self.symbols = []
        self.html, self.sections = "", [[1, "", file, self.comment]]

    def summary(self):
        """The first sentence of its comment, or that of the first symbol that has one."""
        texts = [self.comment, *(symbol.summary() for symbol in self.symbols)]
        return re.split(r"(?<=\.) ", next(filter(None, texts), ""))[0]


def read(folder):
    """All shown symbols outside classes, with the members of classes in them; and the symbol of every id of Doxygen's."""
    found, by_id = [], {}
    for path in sorted(folder.glob("*.xml")):
        compound = xml.etree.ElementTree.parse(path).getroot().find("compounddef")
        if compound is None or compound.get("kind") not in ("class", "struct", "namespace"):
            continue
        members = [Symbol(element) for element in compound.iter("memberdef") if element.get("kind") in SHOWN]
        members = [member for member in members if member.is_shown()]
        if compound.get("kind") == "namespace":
            found += members
        else:
            whole = Symbol(compound)
            if not whole.is_shown():
                continue
            whole.members = members
            for member in members:
                member.owner = whole.name
            found.append(whole)
            by_id[compound.get("id")] = whole
        by_id.update((member.element.get("id"), member) for member in members)
    return found, by_id


def markup(element, address):
    """A description of Doxygen's as HTML; address(id) is where a symbol is described, or None."""
    inner = html.escape(element.text or "") + "".join(markup(part, address) + html.escape(part.tail or "") for part in element)
    if element.tag == "ref" and address(element.get("refid")):
        return f'<a href="{address(element.get("refid"))}">{inner}</a>'
    if element.tag == "ndash":
        return "–"
    return f"<{TAGS[element.tag]}>{inner}</{TAGS[element.tag]}>" if element.tag in TAGS else inner


def headers(folder, root, link):
    """The headers of which Doxygen has written XML to a folder; link(page, other) is the address of a page from another."""
    symbols, by_id = read(folder)
    pages = {}
    for symbol in sorted(symbols, key=lambda symbol: symbol.line):
        pages.setdefault(symbol.file, Header(symbol.file, root)).symbols.append(symbol)
    for page in pages.values():
        used = collections.Counter()
        for symbol in page.symbols:
            for one in (symbol, *symbol.members):
                name = re.sub(r"[^\w:~]+", "-", f"{one.owner}::{one.name}" if one.owner else one.name)
                used[name] += 1
                one.anchor = f"{name}-{used[name]}" if used[name] > 1 else name
    classes = {symbol.name: symbol for symbol in symbols if symbol.members or symbol.kind in ("enum", "class", "struct", "typedef")}

    def write(page):
        def address(symbol):
            return symbol and f"{link(page.page, pages[symbol.file].page) if symbol.file != page.title else ''}#{symbol.anchor}"

        def signature(symbol):
            code = html.escape(symbol.signature(), quote=False)
            named = re.sub(r"\b[A-Z]\w+(?:::[A-Z]\w+)*\b", lambda name: f'<a href="{address(classes[name[0]])}">{name[0]}</a>'
                           if name[0] in classes and classes[name[0]] is not symbol else name[0], code)
            return f"<code>{named}</code>"

        def described(symbol):
            values = "".join(f"<li><code>{html.escape(text_of(value.find('name')))}</code> {html.escape(text_of(value.find('briefdescription')))}"
                             "</li>" for value in symbol.element.findall("enumvalue"))
            return "".join(markup(part, lambda ref: address(by_id.get(ref))) for part in symbol.descriptions()) + (
                f"<ul>{values}</ul>" if values else "")

        def rows(members):
            for member in members:
                if member.kind != "variable" or member.summary():
                    page.sections.append([4, member.anchor, member.name, member.summary()])
            return "".join(f'<dt id="{one.anchor}">{signature(one)}</dt>\n<dd>{described(one)}</dd>\n' for one in members)

        body = [f"<h1>{page.title.replace('/', '/<wbr>')}</h1>\n<p>{html.escape(page.comment)}</p>"]
        for symbol in page.symbols:
            if symbol.kind in ("class", "struct"):
                page.sections.append([2, symbol.anchor, symbol.name, symbol.summary()])
                body.append(f'<h2 id="{symbol.anchor}">{symbol.name}</h2>\n<p class="is">{signature(symbol)}</p>{described(symbol)}')
                body.append(f"<dl>{rows(sorted(symbol.members, key=lambda member: member.line))}</dl>" if symbol.members else "")
        if free := [symbol for symbol in page.symbols if symbol.kind not in ("class", "struct")]:
            page.sections.append([2, "functions", "Functions", ""])
            body.append(f'<h2 id="functions">Functions and types</h2>\n<dl>{rows(free)}</dl>')
        page.html = "\n".join(body)

    for page in pages.values():
        write(page)
    return sorted(pages.values(), key=lambda page: page.title)
