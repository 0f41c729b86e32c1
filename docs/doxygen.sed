# Links in Markdown, as Doxygen understands them: to another document, but neither to a section of it nor to other files or
# the lists of documents.
s/\[([^]]*)\]\([^):]*README\.md\)/\1/g
s/\]\(([^):]*\.md)(#[^)]*)?\)/](\1>)/g
s/(^|[^!])\[([^]]*)\]\([^):>]*\)/\1\2/g
s/\.md>\)/.md)/g
