"""Writes tests/text/data/chat_templates.json: what `transformers` makes of conversations.

Usage: chat_templates.py [--check]   (from the repository's root; `./dev reference chat_templates` runs it)

With --check the file is compared with what would be written. Rendered are the templates of
tests/text/data/chat_templates, which are ours but use the constructs of the families that they are named after; and
snippets, listed and drawn, for each rule of the language. null: the reference refuses it; {"raised": text}: the template does.
"""
import datetime, itertools, json, pathlib, random, sys
import jinja2
from transformers.utils import chat_template_utils

DATA = pathlib.Path("tests/text/data")
FILE = DATA / "chat_templates.json"
NOW = datetime.datetime(2026, 3, 7, 9, 5, 2)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


chat_template_utils.datetime = FixedTime


def chat(*turns):
    return [{"role": role, "content": content} for role, content in turns]


S, U, A, T = "system", "user", "assistant", "tool"
CONVERSATIONS = [
    chat((U, "Hello")),
    chat((S, "Be brief."), (U, "Hello")),
    chat((U, "  Who are\tyou? \n\n"), (A, "\n I am a program. "), (U, "Really?")),
    chat((S, " Speak plainly. \n"), (U, "One"), (A, "Two"), (U, "Three"), (A, "Four"), (U, "Five")),
    chat((U, "Question"), (A, "Answer")),
    chat((S, "Only this")),
    chat((U, "")),
    chat((S, ""), (U, ""), (A, ""), (U, " ")),
    chat((A, "I go first")),
    chat((U, "One"), (U, "and two")),
    chat((U, "One"), (A, "Two"), (S, "late system"), (U, "Three")),
    chat((U, "Use it"), (A, "Calling"), (T, "42"), (T, '{"x": [1, 2]}'), (A, "It is 42.")),
    chat(("narrator", "Once upon a time"), (U, "and?")),
    chat((U, "h\u00e9llo \u4f60\u597d \U0001f44b\U0001f3fd \u00df\u0130 \u05d0\u05d1 e\u0301"), (A, "\u00a0\u3000padded\u2003\x1c")),
    chat((U, "{{ bos_token }} {% if %} {# no #} <|im_end|>[INST]"), (A, "'\"\\\b\u2028</s>")),
    chat((S, "/no_think Be quick.  "), (U, "Hi"), (A, "<think>\nhm\n</think>\n\nHi!"), (U, "And?"), (A, "<think>a</think>b</think>\nc")),
    chat((S, "You are a test. /system_override"), (U, "a\r\nb\rc\nd")),
    chat((U, "<tool_response>\n1\n</tool_response>"), (A, "x"), (U, "<tool_response>y</tool_response>")),
    [],
]

# What each shows; `m` is a conversation of three messages.
SNIPPETS = r"""
{{ messages | length }} {{ messages|map(attribute='role')|join(', ') }}
{{ messages[0].role }}{{ messages[-1]['content'] }}{{ messages[5] }}|{{ messages[5] is defined }}
{{ messages[5].role }}
{{ nothing }}|{{ nothing is defined }}|{{ nothing is undefined }}|{{ nothing is none }}|{{ nothing | default('x') }}
{{ nothing.more }}
{{ nothing + 'x' }}
{{ nothing ~ 'x' ~ 1 ~ none ~ true ~ 1.5 }}
{{ nothing == other }}{{ nothing != 1 }}{{ not nothing }}{{ 'a' in nothing }}{{ nothing | length }}
{{ '' | default('x') }}|{{ '' | default('x', true) }}|{{ none | default('x') }}|{{ false | d('x', boolean=true) }}
{{ none }} {{ true }} {{ False }} {{ None }} {{ 1 }} {{ -1 }} {{ 1.0 }} {{ 1e3 }} {{ 1_000 }} {{ 1e16 }} {{ 1e-5 }} {{ 0.0001 }} {{ 123456789.123 }} {{ 1e15 }} {{ -2.50 }}
{{ [1, 'a', none, true, [], {}, {'k': 'v'}, (1,), (1, 2), ()] }}
{{ {'a': 1, 'b': [1, 2], 'a': 3} }}
{{ "it's" }} {{ ["it's", 'say "x"', 'both \' and "', 'tab\t', 'nl\n', 'back\\slash', '\x07', 'é', '\u200b', '\U0001f600'] }}
{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 3 ** 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 / 4 }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 'ab' * 3 }} {{ 2 * [1, 2] }} {{ 'a' * -1 }}| {{ true + true }}
{{ 'a' + 1 }}
{{ [1] + [2] }} {{ 'a' + 'b' }} {{ (1,) + (2,) }}
{{ [1] + (2,) }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 == 1.0 }} {{ 1 == true }} {{ '1' == 1 }} {{ 2 >= 2 }} {{ 1 != 2 }} {{ 1 <= 0 }}
{{ 'a' < 1 }}
{{ 'b' in 'abc' }} {{ 'x' not in 'abc' }} {{ 1 in [1, 2] }} {{ 'role' in messages[0] }} {{ 'tool_calls' in messages[0] }} {{ '' in 'abc' }} {{ 2 in (1, 2) }}
{{ 1 in 'abc' }}
{{ true and false or true }} {{ 0 or 'x' }} {{ 1 and 'y' }} {{ not 1 == 2 }} {{ not true }} {{ 'a' and '' and 'b' }}|{{ none or [] or 0 }}
{{ 'yes' if messages else 'no' }} {{ 'yes' if false }}| {{ 'a' if false else 'b' if false else 'c' }} {{ ('x' if true else 'y') ~ 'z' }}
{{ messages[1:] | length }} {{ messages[:-1] | length }} {{ messages[::-1][0].content }} {{ 'abcdef'[1:4] }} {{ 'abcdef'[::2] }} {{ 'abcdef'[::-1] }} {{ 'abcdef'[-2:] }} {{ 'abcdef'[4:1:-1] }} {{ 'abc'[5:] }}| {{ 'héé'[1] }} {{ 'abc'[-1] }} {{ [1,2,3][:] }} {{ (1,2,3)[1:] }}
{{ none[1:] is defined }} {{ 'abc'[9] is defined }} {{ {'a': 1}[0] is defined }}
{{ 'abc'[::0] }}
{{ '  a b ' | trim }}| {{ 'xxaxx' | trim('x') }} {{ ' \u00a0\u2003x\u3000\x1f ' | trim }}| {{ 5 | trim }} {{ none | trim }}
{{ ' a '.strip() }}|{{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}|{{ 'xyaxy'.strip('yx') }} {{ '\na\n\n'.rstrip('\n') }}|
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b  c '.split(none, 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ ''.split() }} {{ ''.split(',') }}
{{ 'abc'.split('') }}
{{ 'a::b'.split('::')[-1] }} {{ 'x</think>y'.split('</think>')[0] }} {{ 'a\nb\r\nc\u2028d\n'.splitlines() }}
{{ 'abc'.startswith('a') }} {{ 'abc'.endswith(('b', 'c')) }} {{ 'abc'.startswith(('x', 'y')) }} {{ 'abc'.endswith('') }}
{{ 'abc'.startswith(['a']) }}
{{ 'aaa'.replace('a', 'b') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'aaa' | replace('aa', 'b') }} {{ 'aaa' | replace('a', 'b', 1) }} {{ 'a.b' | replace('.', '') }}
{{ 'hello world' | upper }} {{ 'HeLLo' | lower }} {{ 'hello WORLD' | capitalize }} {{ "they're bill's" | title }} {{ 'a-b (c' | title }} {{ 'éÀ ÿ'.upper() }} {{ 'ÉÀ'.lower() }} {{ 'éa'.capitalize() }} {{ 'x y'.title() }}
{{ 'abcabc'.find('c') }} {{ 'abc'.find('x') }} {{ 'éab'.find('b') }} {{ 'abcabc'.rfind('b') }} {{ 'aaaa'.count('aa') }} {{ 'abc'.count('') }} {{ [1, 2, 1].count(1) }} {{ [1, 2].index(2) }}
{{ ', '.join(['a', 'b']) }} {{ ''.join([]) }}| {{ '-'.join('abc') }}
{{ '-'.join([1]) }}
{{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('bc') }} {{ '12'.isdigit() }} {{ ' '.isspace() }} {{ ''.isdigit() }}
{{ ['a', 'b'] | first }} {{ 'xyz' | last }} {{ [] | first is defined }} {{ [3,1,2] | sort }} {{ ['b', 'A'] | sort }} {{ [1,2] | reverse | list }} {{ 'abc' | reverse }} {{ ['a', 'A', 'b'] | unique | list }} {{ 'ab' | list }}
{{ [3,1,2] | sort(reverse=true) }} {{ messages | sort(attribute='content') | map(attribute='content') | list }}
{{ '5' | int + 1 }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 3.9 | int }} {{ '3.9' | int }} {{ ' 12 ' | int }} {{ '2.5' | float }} {{ 'x' | float }} {{ 3 | float }} {{ -3 | abs }} {{ 3 | string + '4' }} {{ none | int }}
{{ {'a': 1, 'b': 'x'} | tojson }} {{ [] | tojson }} {{ {} | tojson }} {{ 'é"\\\n\t\x01/<>&\u2028' | tojson }} {{ [1, 1.5, true, none, 'x'] | tojson }}
{{ {'a': [1, {'b': []}], 'c': {}, 'd': {'e': 'f'}} | tojson(indent=2) }}
{{ nothing | tojson }}
{{ {'a': 1}.items() | list }} {{ {'a': 1, 'b': 2}.keys() | list }} {{ {'a': 1, 'b': 2}.values() | list }} {{ {'a': 1}.get('a') }} {{ {'a': 1}.get('b') }} {{ {'a': 1}.get('b', 5) }} {{ {'a': 1} | items | list }}
{{ {'items': 5}['items'] }} {{ {'x': 5}.x }} {{ {'x': {'y': [7]}}.x.y[0] }} {{ {'x': 5}['y'] is defined }} {{ [[1, 2], [3]].0.1 }}
{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }}{{ ', ' if not loop.last }}{% endfor %}
{% for k, v in {'a': 1} | items %}{{ k }}{{ v }}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{% for x in [] %}never{% else %}empty{% endfor %}
{% for x in nothing %}never{% else %}empty{% endfor %}
{% for x in none %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for c in 'héy' %}[{{ c }}]{% endfor %}{% for k in {'a': 1, 'b': 2} %}{{ k }}{% endfor %}
{% for x in [1,2,3,4] if x % 2 == 0 %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ x }};{% endfor %}
{% for x in [1,2,3] %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.cycle('a', 'b') }} {{ loop.depth }}{% for y in [1] %}{{ loop.depth }}{% endfor %};{% endfor %}
{% for x in range(3) %}{{ x }}{% endfor %}{{ range(2, 8, 3) | list }}{{ range(3, 0, -1) | list }}
{% for x in [1,2,3,4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in [1,2] %}{% for y in [1,2,3] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% else %}no{% endfor %}
{% set x = 1 %}{% for i in [1,2] %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}
{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}{% set t = 1, 2 %}{{ t }}
{% set ns = namespace(x=1, found=false) %}{% for i in [1,2] %}{% set ns.x = ns.x + i %}{% set ns.found = true %}{% endfor %}{{ ns.x }}{{ ns.found }}{{ ns.other is defined }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a + ns.b }}{{ ns['a'] }}
{% set d = {} %}{% set d.x = 1 %}
{% set ns = dict(a=1, b='x') %}{{ ns }}
{% set x %} in {{ 1 + 1 }} {% endset %}[{{ x }}]{% set y | trim | upper %} abc {% endset %}[{{ y }}]{{ x | length }}
{% macro f(a, b=2, c=none) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }}{{ f(1, c=3) }}{{ f(b=5, a=4) }}{{ f() }}
{% set g = 'outer' %}{% macro f(x) %}{{ g }}{{ x }}{% set g = 'inner' %}{{ g }}{% endmacro %}{{ f(1) }}{{ g }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('role', 'eq', 'user') | map(attribute='role') | list }} {{ messages | selectattr('nothing') | list }} {{ [0, 1, '', 'a', none] | select | list }} {{ [0, 1, 2] | reject('odd') | list }} {{ ['a', 'b'] | map('upper') | list }} {{ [1, 2, 3] | select('gt', 1) | list }} {{ [' a '] | map('trim') | list }} {{ [{'a': {'b': 1}}] | map(attribute='a.b') | list }} {{ [{}] | map(attribute='x', default='y') | list }}
{{ 1 is number }} {{ 'a' is string }} {{ [] is iterable }} {{ {} is mapping }} {{ [] is sequence }} {{ {} is sequence }} {{ 'a' is sequence }} {{ 1 is iterable }} {{ 1 is integer }} {{ true is integer }} {{ true is number }} {{ true is boolean }} {{ 1.0 is float }} {{ none is none }} {{ 'a' is mapping }} {{ nothing is string }} {{ nothing is iterable }} {{ nothing is sequence }} {{ range is callable }} {{ 1 is callable }}
{{ 1 is odd }} {{ 2 is even }} {{ 6 is divisibleby 3 }} {{ 6 is divisibleby(4) }} {{ 1 is eq 1 }} {{ 1 is ne(2) }} {{ 2 is gt 1 }} {{ 2 is lessthan 1 }} {{ 'a' is in ['a'] }} {{ true is sameas true }} {{ 1 is sameas true }} {{ none is sameas none }} {{ false is false }} {{ 0 is false }} {{ 1 is true }} {{ 'x' is not none }} {{ not 'x' is defined }} {{ 1 is not defined }}
{{ x is defined and x is none }} {{ (x is defined) == false }} {{ 'a' if x is defined else 'b' }} {{ x is defined or 'y' }}
{{ 'a' 'b' "c" }} {{ 'quote \' inside' }} {{ "\x41\u00e9\U0001F600\101\q\
end" }}
{{ strftime_now('%d %b %Y') }} {{ strftime_now('%H:%M:%S %A %j %%') }} {{ strftime_now('') }}|
{{ raise_exception('with ' ~ 1 ~ ' reason') }}
{% if messages[0].role == 'user' %}{{ raise_exception('no') }}{% endif %}
{{ 'text' | indent }} {{ 'a\nb\n\nc' | indent }} {{ 'a\nb' | indent(2, true) }} {{ 'a\n\nb' | indent(width=1, blank=true) }} {{ 'a\nb' | indent('> ') }}
{{ [1, [2, 3]] | join('-') }} {{ messages | join('/', attribute='role') }} {{ 'abc' | join(',') }} {{ [1, none, true] | join }}
{{ messages | length > 2 }}
{{ -messages | length }}
{{ messages | length - 1 }} {{ (messages | length) * 2 }} {{ messages|length is even }} {{ 'a' ~ 'b' | upper }} {{ -3 | abs }}
{{ {'a': {'b': {}}} }}{{ {} }}{{ {'x': '}}'} }}
{{ (1) }} {{ (1,) }} {{ () }} {{ 1, 2 }} {{ [1, 2,] }} {{ {'a': 1,} }}
{%- set x = 'left' -%}   {{- x -}}   right
a {%- if true -%} b {%- endif -%} c {{- ' d ' -}} e {#- note -#} f
  {% if true %}  x  {% endif %}  y
{% raw %}{{ x }}{% if %}{# c #}{% endraw %} {%- raw -%}  y  {%- endraw -%} z
{% generation %}a{% set x = 1 %}{{ x }}{% endgeneration %}{{ x is defined }}
{{ {'a': 1} == {'a': 1.0} }} {{ [1, 2] == [1, 2] }} {{ (1, 2) == [1, 2] }} {{ 'a' == 'a' }} {{ none == false }} {{ {} == [] }} {{ messages[0] == messages[0] }} {{ messages[-1] == messages[0] }}
{{ '%s' }}{{ 10 % 4 }}
{{ loop is defined }}{% for x in [1] %}{{ loop is defined }}{% endfor %}
{{ messages.append(1) }}
{{ [1].pop() }}
{{ messages[0].update({}) }}
{{ x.y.z is defined }}
{{ messages[0].nope.more }}
{{ messages[0]['nope'] is defined }}{{ messages.0.role }}{{ messages.foo is defined }}
{{ 'abc'.foo }}|{{ 'abc'.foo is defined }}|{{ 5.foo is defined }}
{{ none.x is defined }}{{ none.x }}
{{ 'ß'.lower() }} {{ 'İ' | lower | length }}
{{ caller is defined }}
{% if 1 %}a{% elif 1 %}b{% else %}c{% endif %}{% if 0 %}a{% elif 1 %}b{% else %}c{% endif %}{% if 0 %}a{% elif 0 %}b{% else %}c{% endif %}
{% if true %}open
{% if true %}{% for x in [] %}{% endif %}{% endfor %}
{% endif %}
{% endfor %}
{% else %}
{{ 1
{% if %}{% endif %}
{{ }}
{{ 1 2 }}
{{ 'open }}
{# open
{% for in x %}{% endfor %}
{% break %}
{{ x | nofilter }}
{{ x is notest }}
{{ f( }}
{{ [1, }}
{{ (1 }}
{{ 1 + }}
{{ a b }}
{{ $ }}
{% nothing %}
{% set %}{% endset %}
{% macro %}{% endmacro %}
{{ x. }}
{{ x[] }}
{{ 1 | default(2, 3, 4, 5) }}
{{ 'a'.upper(1) }}
{{ range() }}
""".strip("\n")

# Tags and texts in every neighbourhood, for white space.
PIECES = ["{% if true %}", "{%- if true %}", "{% if true -%}", "{%+ if true %}", "{% if true +%}", "{{ 'v' }}", "{{- 'v' }}",
          "{{ 'v' -}}", "{# c #}", "{#- c #}", "{# c -#}", "{#+ c +#}", "{% set x = 1 %}", "{%- set x = 1 -%}", "{% raw %} r \n{% endraw %}",
          "{%- raw -%}\n r {%- endraw -%}", "a", "b\n", "\n", "\n\n", " ", "  ", "\t", "\n  ", "  \n", "\r\n", "\u00a0", "x y"]


def drawn(count):
    draw = random.Random(8)
    for _ in range(count):
        out, open_tags = "", 0
        for _ in range(draw.randint(2, 9)):
            piece = draw.choice(PIECES)
            out += piece
            open_tags += "if true" in piece
        ends = ["{% endif %}", "{%- endif %}", "{% endif -%}", "{%+ endif +%}"]
        for _ in range(open_tags):
            out += draw.choice(["", "\n", " ", "z"]) + draw.choice(ends)
        yield out + draw.choice(["", "\n", "\n\n", " \n"])


def rendered(template, messages, prompt):
    try:
        texts, _ = chat_template_utils.render_jinja_template(
            [messages], chat_template=template, add_generation_prompt=prompt, **TOKENS)
        return texts[0]
    except Exception as error:
        return {"raised": error.message} if type(error) is jinja2.exceptions.TemplateError else None


def snippets():
    lines = SNIPPETS.split("\n")
    several = []
    for line in lines:  # a line that does not begin with a tag goes on the one before
        if several and line.startswith("end\" }}"):
            several[-1] += "\n" + line
        else:
            several.append(line)
    return several


def main():
    families = []
    for file in sorted(DATA.glob("chat_templates/*.jinja")):
        template = file.read_text()
        results = [[rendered(template, c, p) for p in (False, True)] for c in CONVERSATIONS]
        refused = sum(not isinstance(r, str) for r in itertools.chain(*results))
        families.append({"name": file.stem, "results": results})
        print(f"{file.stem:12} {2 * len(results)} conversations, {refused} refused")
    language = [{"template": t, "result": rendered(t, CONVERSATIONS[2], False)}
                for t in [*snippets(), *drawn(400)]]
    print(f"{len(language)} snippets, {sum(e['result'] is None for e in language)} refused")
    out = {"now": list(NOW.timetuple())[:8], "tokens": TOKENS, "conversations": CONVERSATIONS, "families": families,
           "snippets": language}
    text = json.dumps(out, ensure_ascii=True, indent=0, separators=(",", ":")) + "\n"
    if "--check" in sys.argv:
        assert text == FILE.read_text(), f"{FILE} is not what this transformers renders"
        print(f"{FILE} is what transformers renders")
        return
    FILE.write_text(text)


main()
