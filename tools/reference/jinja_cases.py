"""What jinja_check.py renders: cases out of a C++ test, conversations, and templates that are drawn from a seed."""
import ast, json, random, re

TOKEN = re.compile(r'\s+|//[^\n]*|("(?:[^"\\]|\\.)*")|R"\((.*?)\)"|([A-Za-z_][\w:]*)|(-?\d+\.?\d*(?:e-?\d+)?)|(.)', re.S)


class Reader:
    """C++ expressions that make JSON: literals, braces, json::array and json::object."""

    def __init__(self, text):
        self.tokens = [m for m in TOKEN.finditer(text) if m.lastindex]
        self.at = 0

    def peek(self):
        return self.tokens[self.at].group(self.tokens[self.at].lastindex)

    def take(self, wanted=None):
        token = self.peek()
        assert wanted in (None, token), f"{token} in place of {wanted}"
        self.at += 1
        return token

    def value(self):
        match = self.tokens[self.at]
        if match.group(1) or match.group(2) is not None:
            out = ""
            while self.tokens[self.at].lastindex in (1, 2):
                part = self.tokens[self.at]
                out += string_of(part.group(1)) if part.group(1) else part.group(2)
                self.at += 1
            return out
        token = self.take()
        if token == "{":
            return self.braces("}")
        if token in ("json", "json::array", "json::object", "std::string", "common_json", "common_json::array", "common_json::object"):
            if self.peek() == "{":
                self.take()
                items = self.items("}")
            else:
                self.take("(")
                items = self.items(")")
            if token.endswith("object"):
                return dict(items[0]) if items and items[0] else {}
            if token.endswith("array"):
                inner = items[0] if items else []
                return [list(p) for p in inner.items()] if isinstance(inner, dict) and inner else inner or []
            return items[0]
        constants = {"true": True, "false": False, "nullptr": None}
        return constants[token] if token in constants else ast.literal_eval(token)

    def items(self, end):
        out = []
        while self.peek() != end:
            out.append(self.value())
            if self.peek() == ",":
                self.take()
        self.take(end)
        return out

    def braces(self, end):
        items = self.items(end)
        pairs = all(isinstance(i, list) and len(i) == 2 and isinstance(i[0], str) for i in items)
        return {k: v for k, v in items} if pairs and items else items


def string_of(literal):
    return ast.literal_eval("'''" + literal[1:-1].replace("'", "\\'").replace('\\?', '?') + "'''")


def of_tests(source):
    out = []
    for match in re.finditer(r"^ *test_template\(t, (?=\")", source, re.M):
        reader = Reader(source[match.end():match.end() + 20_000])
        reader.value()
        reader.take(",")
        template = reader.value()
        reader.take(",")
        variables = reader.value()
        out.append((template, variables if isinstance(variables, dict) else {}))
    return out


def conversations():
    def say(role, content, **more):
        return {"role": role, "content": content, **more}

    call = {"id": "call00001", "type": "function", "function": {"name": "look", "arguments": {"where": "h\u00e9re", "n": 3, "deep": [1, None, True, 2.5]}}}
    tool = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {
        "type": "object", "properties": {"where": {"type": "string", "description": "A place."}, "n": {"type": "integer"}}, "required": ["where"]}}}
    deep = {"type": "function", "function": {"name": "find_all", "description": "Finds \"it\".\nOr not.", "strict": True, "parameters": {
        "type": "object", "required": ["what", "how"], "additionalProperties": False, "$defs": {"p": {"type": "string"}}, "properties": {
            "what": {"type": "array", "description": "Which", "items": {"type": "string", "enum": ["a", "b<c>"]}, "minItems": 1},
            "how": {"type": "object", "properties": {"deep": {"type": "boolean", "default": False}, "in": {"$ref": "#/$defs/p"}}, "required": ["deep"]},
            "most": {"type": ["integer", "null"], "description": "At most \u00e9.", "minimum": 0}, "any": {"anyOf": [{"type": "string"}, {"type": "number"}]},
            "mode": {"type": "string", "enum": ["x", "y"], "description": "Mode", "default": "x"}}}}}
    bare = {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}}
    as_text = {**call, "function": {"name": "look", "arguments": json.dumps(call["function"]["arguments"])}}
    talks = [
        [say("user", "Hello")],
        [say("system", "Be brief."), say("user", " Hi \n")],
        [say("user", "One"), say("assistant", "Two"), say("user", "Three")],
        [say("system", "S"), say("user", "One"), say("assistant", "<think>\nhm\n</think>\n\nTwo"), say("user", "Three"), say("assistant", "Four")],
        [say("user", "One"), say("assistant", None, tool_calls=[call]), say("tool", "42", tool_call_id="call00001", name="look"), say("assistant", "Done.")],
        [say("user", "One"), say("assistant", "", reasoning_content="why not", tool_calls=[call, call]), say("tool", "{\"x\": 1}", tool_call_id="call00001")],
        [say("developer", "D"), say("user", "One"), say("assistant", "I look.", tool_calls=[as_text]), say("tool", "42", tool_call_id="call00001"),
         say("assistant", "", thinking="hm", reasoning="hm", tool_calls=[call]), say("tool", "43", tool_call_id="call00001"), say("user", "Two")],
        [say("user", [{"type": "text", "text": "parts"}, {"type": "text", "text": "and more"}])],
        [say("user", "{{ x }} <|im_end|> '\"\\ \u2028")],
        [],
    ]
    for messages in talks:
        for tools in (None, [tool], [deep, bare]):
            for prompt in (False, True):
                yield {"messages": messages, "tools": tools, "add_generation_prompt": prompt, "bos_token": "<s>", "eos_token": "</s>"}
    yield {"messages": talks[1], "enable_thinking": False, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}


TEXTS = ["", "a", "Ab c", "  x y\t", "h\u00e9llo w\u00f6rld", "a-b_c d1", "1", "12", "-7", "2.5", "1e3", "0x1F", "1_0", "role", "x,y,,z", "line\nnext\r\n\nlast",
         "<b>&'\"</b>", "\u00df\ufb01\u0130", "AB", "ab", "Ab Cd", "\u4f60\u597d", "{} {0}", "%s-%d", "a.b", "\U0001f600"]
NUMBERS = ["0", "1", "-1", "2", "3", "7", "10", "255", "1000000", "0x1f", "0b101", "1_000", "9007199254740993"]
REALS = ["0.0", "1.5", "-2.5", "3.0", "0.1", "1e16", "1e-7", "2.675", "1234.5678", "0.5"]
NAMES = ["n", "f", "s", "l", "d", "users", "none_", "flag", "nothing", "nested", "empty", "words"]
VARIABLES = {"n": 5, "f": 2.5, "s": "some Text here", "l": [3, 1, 2], "d": {"b": 1, "a": "x", "C": None}, "none_": None, "flag": True,
             "users": [{"name": "Bo", "age": 30, "tags": ["x", "y"]}, {"name": "al", "age": 25, "tags": []}, {"name": "Cy", "age": 30}],
             "nested": {"x": {"y": [1, {"z": "deep"}]}}, "empty": [], "words": ["Apple", "pear", "apple", "Fig"]}
TYPES = ["int", "real", "text", "list", "dict", "bool", "any"]


class Draw:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.locals = []
        self.macros = []

    def one(self, *choices):
        return self.random.choice(choices)

    def chance(self, p):
        return self.random.random() < p

    def text_literal(self):
        return repr(self.one(*TEXTS)) if self.chance(0.5) else '"' + self.one("a", "b c", "x", "role", "name", ", ", "-", " ") + '"'

    def literal(self, kind):
        r = self.random
        if kind == "int":
            return self.one(*NUMBERS)
        if kind == "real":
            return self.one(*REALS)
        if kind == "text":
            return self.text_literal()
        if kind == "bool":
            return self.one("true", "false", "True", "False")
        if kind == "list":
            inner = self.one("int", "text", "any", "real", "list", "int", "text")
            items = [self.literal(inner if inner != "list" else "int") for _ in range(r.randint(0, 4))]
            if inner == "list":
                return "[" + ", ".join(f"[{i}, {self.literal('text')}]" for i in items) + "]"
            return self.one("[{}]", "[{}]", "({},)").format(", ".join(items)) if items else self.one("[]", "()")
        if kind == "dict":
            keys = [self.literal(self.one("text", "text", "text", "int", "bool", "real")) for _ in range(r.randint(0, 3))]
            if self.chance(0.1):
                keys.append(self.one("none", "(1, 2)", "()"))
            return "{" + ", ".join(f"{k}: {self.literal(self.one('int', 'text', 'any', 'list'))}" for k in keys) + "}"
        return self.literal(self.one("int", "real", "text", "bool")) if self.chance(0.9) else "none"

    def variable(self, kind):
        known = {"int": ["n"], "real": ["f"], "text": ["s"], "list": ["l", "users", "empty", "words", "users", "range(4)", "range(2, 9, 3)", "range(5, 0, -2)"],
                 "dict": ["d", "nested", "nested.x", "users[0]"], "bool": ["flag"], "any": NAMES + self.locals}[kind]
        return self.one(*known)

    def value(self, kind, depth):
        """An expression that has, most often, values of this kind."""
        if self.chance(0.06):
            kind = self.one(*TYPES)
        if depth <= 0 or self.chance(0.15):
            return self.variable(kind) if self.chance(0.5) else self.literal(kind)
        if kind == "any":
            kind = self.one("int", "real", "text", "list", "dict", "bool", "any")
            if kind == "any":
                return self.odd(depth)
        return getattr(self, kind)(depth - 1)

    def number(self, depth):
        return self.value(self.one("int", "int", "real", "bool"), depth)

    def small(self):
        return self.one("0", "1", "2", "3", "5", "-1", "-2", "12")

    def odd(self, depth):
        v = lambda k="any": self.value(k, depth - 1)
        return self.one(
            lambda: f"{v()} if {v('bool')} else {v()}", lambda: f"({v()} if {v()})", lambda: f"{v()} or {v()}", lambda: f"{v()} and {v()}",
            lambda: f"{v('dict')}[{v()}]", lambda: f"{v('list')}[{self.small()}]", lambda: f"{v('dict')}.{self.one('a', 'b', 'x', 'get', 'name', 'nope')}",
            lambda: f"({v()}) | default({v()})", lambda: f"({v()}) | default({v()}, {self.one('true', 'boolean=true')})", lambda: f"nothing.{self.one('a', 'b')}",
            lambda: f"{v('list')} | {self.one('first', 'last', 'min', 'max', 'sum', 'random' if False else 'first')}", lambda: f"{v('dict')}.get({v()}, {v()})",
            lambda: f"{v()} | attr({self.text_literal()})", lambda: f"{v('list')}[]", lambda: f"nested.x.y.{self.one('0', '1', '7')}",
            lambda: f"{v('list')} | {self.one('map', 'select', 'reject')}({self.text_literal()})", lambda: "dict(" + self.one("a=1", "d, b=3", "[[1, 2], ('x', 'y')]", "{}", "l") + ")",
            lambda: f"{v('list')}[{self.small()}:{self.small()}]", lambda: f"({v()}, {v()})[{self.small()}]", lambda: f"{v()} ~ {v()}")()

    def int(self, depth):
        v = lambda k: self.value(k, depth)
        return self.one(
            lambda: f"{v('int')} {self.one('+', '-', '*', '//', '%')} {v('int')}", lambda: f"({v('int')} {self.one('+', '-', '*', '//', '%')} {v('int')})",
            lambda: f"{v('int')} ** {self.one('0', '1', '2', '3')}", lambda: f"-{v('int')}", lambda: f"+{v('int')}", lambda: f"{v('list')} | length", lambda: f"{v('text')} | {self.one('length', 'count', 'wordcount')}",
            lambda: f"{v('any')} | int", lambda: f"{v('text')} | int({self.one('0', '7', 'default=3', '0, 16', 'base=16', 'base=2', '1, 0', 'base=8')})", lambda: f"{v('int')} | abs",
            lambda: f"{v('list')} | sum", lambda: f"users | sum(attribute='age')", lambda: f"{v('list')} | sum(start={self.small()})", lambda: f"{v('text')}.{self.one('find', 'rfind', 'count', 'index', 'rindex')}({self.text_literal()})",
            lambda: f"{v('text')}.{self.one('find', 'rfind', 'count')}({self.text_literal()}, {self.small()}, {self.small()})", lambda: f"{v('list')}.{self.one('index', 'count')}({v('int')})",
            lambda: f"{v('int')} | round({self.one('', '-1', '1', '-2')})", lambda: f"{v('real')} | int", lambda: f"l | {self.one('min', 'max', 'first', 'last')}", lambda: f"{v('int')} + {v('bool')}")()

    def real(self, depth):
        v = lambda k: self.value(k, depth)
        return self.one(
            lambda: f"{v('real')} {self.one('+', '-', '*', '/', '//', '%')} {self.number(depth)}", lambda: f"{v('int')} / {v('int')}", lambda: f"{v('any')} | float", lambda: f"{v('text')} | float({self.one('1.5', 'default=2')})",
            lambda: f"{v('real')} | round({self.one('', '1', '2', '-1', '1, ' + repr('floor'), '0, ' + repr('ceil'), 'method=' + repr('ceil'), '3, ' + repr('common'))})", lambda: f"{v('real')} | abs", lambda: f"{v('real')} ** {self.one('2', '0', '0.5', '-1')}",
            lambda: f"-{v('real')}", lambda: f"[{v('real')}, {v('real')}] | {self.one('sum', 'min', 'max')}")()

    def text(self, depth):
        v = lambda k: self.value(k, depth)
        simple = self.one("upper", "lower", "capitalize", "title", "trim", "string", "e", "escape", "forceescape", "urlencode", "safe", "reverse", "tojson", "indent", "length | string", "list | string")
        method = self.one("upper", "lower", "title", "capitalize", "strip", "lstrip", "rstrip", "swapcase", "casefold", "expandtabs")
        fill = self.one("", ", '*'", ", '\u00e9'")
        return self.one(
            lambda: f"{v('text')} | {simple}", lambda: f"{v('any')} | {simple}", lambda: f"{v('text')}.{method}()", lambda: f"{v('text')} + {v('text')}", lambda: f"{v('any')} ~ {v('any')}", lambda: f"{v('text')} * {self.small()}",
            lambda: f"{v('text')}[{self.small()}]", lambda: f"{v('text')}[{self.one('', self.small())}:{self.one('', self.small())}{self.one('', ':' + self.small())}]", lambda: f"{v('list')} | join({self.one('', self.text_literal())})", lambda: f"users | join({self.text_literal()}, attribute={self.one(repr('name'), repr('age'), repr('nope'))})",
            lambda: f"{v('text')} | replace({v('text')}, {v('text')}{self.one('', ', 1', ', count=2', ', -1')})", lambda: f"{v('text')}.replace({self.text_literal()}, {self.text_literal()}{self.one('', ', 1', ', 2')})",
            lambda: f"{v('text')} | truncate({self.one('', '5', '3, true', '4, leeway=0', '6, false, ' + repr('..'), '5, killwords=true, end=' + repr(''))})", lambda: f"{v('text')} | center({self.one('', '10', '7', '20')})",
            lambda: f"{v('text')} | indent({self.one('', '2', '2, true', 'first=true', repr('> '), '1, blank=true')})", lambda: f"{v('text')}.{self.one('center', 'ljust', 'rjust')}({self.one('5', '8', '11')}{fill})", lambda: f"{v('text')}.zfill({self.small()})",
            lambda: f"{v('text')} | trim({self.text_literal()})", lambda: f"{v('text')}.{self.one('strip', 'lstrip', 'rstrip')}({self.text_literal()})", lambda: f"{v('text')}.{self.one('removeprefix', 'removesuffix')}({self.text_literal()})",
            lambda: f"{self.text_literal()}.join({v('list')})", lambda: self.percent(depth), lambda: self.braces(depth), lambda: f"{v('any')} | tojson({self.one('', 'indent=2', 'sort_keys=true', 'ensure_ascii=true', 'separators=(' + repr(',') + ', ' + repr(':') + ')')})",
            lambda: f"{v('int')} | filesizeformat{self.one('', '(true)')}", lambda: f"{v('dict')} | {self.one('xmlattr', 'urlencode')}", lambda: f"{v('text')} | format({v('any')})", lambda: f"{v('any')} | string", lambda: f"words | {self.one('first', 'last', 'min', 'max')}")()

    def percent(self, depth):
        v = lambda k: self.value(k, depth)
        form = self.one("%s", "%5s|", "%-5s|", "%r", "%d", "%05d", "%+d", "%x", "%#x", "%o", "%.2f", "%8.3f", "%e", "%g", "%%", "%c", "%.2s", "% d", "%(a)s %(b)s", "%a", "%i%%", "%X", "%G")
        if "(" in form:
            return f"{form!r} % {self.one('d', v('dict'))}"
        return self.one(f"{form!r} % ({self.number(depth)},)", f"{form!r} % ({v('any')})", f"{form!r} | format({v('any')})", f"{form + form!r} % ({self.number(depth)}, {v('any')})")

    def braces(self, depth):
        v = lambda k: self.value(k, depth)
        form = self.one("{}", "{0}{1}", "{a}", "{0.name}", "{0[name]}", "{0[0]}", "{:>6}", "{:*^7}", "{:<5}|", "{:05d}", "{:,}", "{:.2f}", "{:+.1e}", "{!r}", "{!s:>4}", "{:x}", "{:#b}", "{:%}", "{:.3}", "{{}}", "{:{}}", "{:_}", "{", "}", "{:d}", "{:g}", "{1}")
        return f"{form!r}.format({self.one(self.number(depth), v('any'), 'users[0]', v('text'))}, {self.one('3', v('any'))}, a={v('any')})"

    def list(self, depth):
        v = lambda k: self.value(k, depth)
        test = self.one("'odd'", "'even'", "'string'", "'number'", "'defined'", "'gt', 1", "'in', [1, 2, 'a']", "'eq', 2", "'none'", "'divisibleby', 2", "'lower'", "")
        attribute = self.one("'name'", "'age'", "'tags'", "'nope'", "'tags.0'", "0")
        by_attribute = attribute + self.one("", ", 'eq', 30", ", 'defined'", ", 'gt', 26", ", 'none'")
        return self.one(
            lambda: f"{v('list')} | list", lambda: f"{v('list')} + {v('list')}", lambda: f"{v('list')} * {self.small()}", lambda: f"{v('list')} | {self.one('sort', 'reverse | list', 'unique | list', 'sort(reverse=true)', 'sort(case_sensitive=true)', 'unique(case_sensitive=true) | list')}",
            lambda: f"users | {self.one('sort', 'unique', 'min', 'max', 'map', 'groupby')}(attribute={attribute}) | {self.one('list', 'list', 'tojson', 'length')}", lambda: f"users | sort(attribute={self.one(repr('age,name'), repr('age'), repr('name'))}) | map(attribute='name') | list",
            lambda: f"{v('list')} | {self.one('select', 'reject')}({test}) | list", lambda: f"{v('any')} | {self.one('select', 'reject')}({test}) | list", lambda: f"users | {self.one('selectattr', 'rejectattr')}({by_attribute}) | list", lambda: f"{v('any')} | {self.one('selectattr', 'rejectattr')}({by_attribute}) | list",
            lambda: f"{v('list')} | map({self.one(repr('upper'), repr('string'), repr('int'), repr('length'), repr('default') + ', 3', repr('trim'), repr('tojson'), repr('abs'), repr('round') + ', 1', 'attribute=0', 'attribute=' + repr('name') + ', default=' + repr('?'), repr('nofilter'))}) | list",
            lambda: f"{v('list')} | {self.one('batch', 'slice')}({self.one('1', '2', '3', '2, 0', '3, fill_with=none')}) | list", lambda: f"{v('text')}.split({self.one('', self.text_literal(), repr(',') + ', 1', 'maxsplit=1')})", lambda: f"{v('text')}.{self.one('rsplit', 'splitlines', 'partition', 'rpartition')}({self.one('', self.text_literal())})",
            lambda: f"{v('dict')}{self.one('.items()', '.keys()', '.values()', ' | items')} | list", lambda: f"{v('dict')}{self.one('.items()', '.keys()', '.values()')}", lambda: f"{v('dict')} | dictsort({self.one('', 'true', 'false, ' + repr('value'), 'reverse=true', 'by=' + repr('value'))})", lambda: f"{v('dict')} | list",
            lambda: f"{v('list')}[{self.one('', self.small())}:{self.one('', self.small())}{self.one('', ':' + self.small())}]", lambda: f"range({self.small()}, {self.small()}{self.one('', ', ' + self.small())}){self.one('', ' | list')}", lambda: f"{v('text')} | list", lambda: f"users | groupby('age') | map('last') | map('length') | list", lambda: f"({v('any')}, {v('any')})", lambda: f"[{v('any')}, {v('any')}]")()

    def dict(self, depth):
        v = lambda k: self.value(k, depth)
        return self.one(lambda: "{" + f"{v('text')}: {v('any')}, {v('any')}: {v('int')}" + "}", lambda: f"dict({v('dict')}, x={v('any')})", lambda: f"dict({v('list')})", lambda: f"{v('dict')}.copy()", lambda: f"users[{self.small()}]", lambda: f"dict(k={v('any')})", lambda: f"{{}}.fromkeys({v('list')}, {v('any')})")()

    def bool(self, depth):
        v = lambda k: self.value(k, depth)
        test = self.one("defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true", "false", "mapping", "sequence", "iterable", "callable", "odd", "even", "upper", "lower", "escaped", "filter", "test", "divisibleby 3", "divisibleby(2)", "sameas none", "sameas true", "sameas flag", "eq 1", "ne(2)", "gt 1", "lt 'b'", "ge 2.5", "le(3)", "in [1, 2]", "in 'abc'", "== 1", "equalto 'x'", "lessthan 3")
        return self.one(
            lambda: f"{v('any')} is {self.one('', 'not ')}{test}", lambda: f"({v('any')}) is {self.one('', 'not ')}{test}", lambda: f"{v('int')} {self.one('<', '<=', '>', '>=', '==', '!=')} {self.number(depth)}", lambda: f"{v('text')} {self.one('<', '>=', '==', '!=', 'in', 'not in')} {v('text')}", lambda: f"{v('any')} {self.one('in', 'not in')} {v('list')}", lambda: f"{v('any')} in {v('dict')}",
            lambda: f"{v('list')} {self.one('==', '<', '!=')} {v('list')}", lambda: f"{v('any')} {self.one('==', '!=')} {v('any')}", lambda: f"not {v('bool')}", lambda: f"{v('bool')} {self.one('and', 'or')} {v('bool')}", lambda: f"{self.small()} < {v('int')} <= {self.small()}", lambda: f"{v('dict')} == {v('dict')}",
            lambda: f"{v('text')}.{self.one('startswith', 'endswith')}({self.one(self.text_literal(), '(' + repr('a') + ', ' + repr('s') + ')', self.text_literal() + ', 1')})", lambda: f"{v('text')}.is{self.one('alnum', 'alpha', 'ascii', 'decimal', 'digit', 'identifier', 'lower', 'numeric', 'printable', 'space', 'title', 'upper')}()", lambda: f"{v('any')} is sameas {v('bool')}")()

    def tag(self, inside):
        return "{%" + self.one("", "", "", "-", "+") + f" {inside} " + self.one("", "", "", "-", "+") + "%}"

    def show(self, inside):
        return "{{" + self.one("", "", "", "-") + f" {inside} " + self.one("", "", "", "-") + "}}"

    def filler(self):
        return self.one("", " ", "\n", "x", "  \n", "text ", "\n  ", "{# note #}", "{#- note -#}", "{% raw %}{{ x }}{% endraw %}")

    def body(self, depth):
        return "".join(self.filler() + self.statement(depth - 1) for _ in range(self.random.randint(1, 3))) + self.filler()

    def name(self):
        name = self.one("x", "y", "z", "n", "item")
        self.locals.append(name)
        return name

    def statement(self, depth):
        v = lambda k="any", d=2: self.value(k, d)
        if depth <= 0 or self.chance(0.35):
            return self.show(v("any", 3))
        loop = self.one("index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem", "depth", "depth0", "cycle('a', 'b')", "changed(item)", "nope")
        kind = self.one("set", "set", "set_block", "if", "if", "for", "for", "for", "macro", "call", "filter", "with", "namespace", "recursive", "pair", "cycler", "block", "generation", "print")
        if kind == "set":
            return self.tag(f"set {self.name()} = {v()}") + self.show(self.one(*self.locals))
        if kind == "set_block":
            return self.tag(f"set {self.name()}{self.one('', ' | upper', ' | trim | length')}") + self.body(depth) + self.tag("endset") + self.show(self.locals[-1])
        if kind == "if":
            return self.tag(f"if {v('bool')}") + self.body(depth) + (self.tag(f"elif {v('any')}") + self.body(depth) if self.chance(0.3) else "") + (self.tag("else") + self.body(depth) if self.chance(0.5) else "") + self.tag("endif")
        if kind == "for":
            name = self.name()
            jump = self.tag(f"if {v('bool', 1)}") + self.tag(self.one("break", "continue")) + self.tag("endif") if self.chance(0.25) else ""
            condition = f" if {v('bool', 1)}" if self.chance(0.3) else ""
            return self.tag(f"for {name} in {v('list')}{condition}") + jump + self.show(name) + (self.show(f"loop.{loop}") if self.chance(0.5) else "") + self.body(depth) + (self.tag("else") + self.body(depth) if self.chance(0.3) else "") + self.tag("endfor")
        if kind == "pair":
            return self.tag(f"for k, item in {v('dict')}{self.one('.items()', ' | items', ' | dictsort')}") + self.show("k ~ '=' ~ item") + self.tag("endfor") + self.tag("set a, b = " + self.one("1, 2", "[3, 4]", v("list"), "'xy'")) + self.show("a ~ b")
        if kind == "macro":
            self.macros.append(f"m{len(self.macros)}")
            name = self.macros[-1]
            arguments = self.one("", "1", "1, 2", "q=3", "1, p=2", "1, 2, 3", "z=1", "*[1, 2]", "**{'p': 1}", "*l", "1, **d")
            return self.tag(f"macro {name}({self.one('', 'p', 'p, q=2', 'p=n, q=p')})") + self.body(depth) + self.show(self.one("p", "q", "p ~ q", "varargs", "kwargs", "caller is defined", "n", "caller()")) + self.tag("endmacro") + self.show(f"{name}({arguments})")
        if kind == "call":
            name = self.one(*self.macros) if self.macros else "nothing"
            return self.tag(f"call{self.one('', '(u)', '(u, w=1)')} {name}({self.one('', '1', 'p=2')})") + self.body(depth) + self.tag("endcall")
        if kind == "filter":
            return self.tag(f"filter {self.one('upper', 'trim', 'replace(' + repr('x') + ', ' + repr('yy') + ')', 'length', 'upper | reverse', 'indent', 'e')}") + self.body(depth) + self.tag("endfilter")
        if kind == "with":
            return self.tag(f"with {self.name()} = {v()}, w = {v()}") + self.body(depth) + self.show("w") + self.tag("endwith")
        if kind == "namespace":
            return self.tag(f"set ns = namespace({self.one('a=1', 'd', 'a=0, b=none', '')})") + self.tag(f"for item in {v('list')}") + self.tag(f"set ns.a = {self.one('item', 'ns.a ~ item', 'loop.index', v())}") + self.tag("endfor") + self.show(self.one("ns.a", "ns.b", "ns", "ns['a']", "ns.nope"))
        if kind == "recursive":
            return self.tag("for item in [1, [2, [3]], []] recursive") + self.show(self.one("loop.depth", "loop.index", "item")) + self.tag("if item is iterable") + self.show("loop(item)") + self.tag("endif") + self.tag("endfor")
        if kind == "cycler":
            return self.tag(f"set c = {self.one('cycler(1, 2, 3)', 'joiner()', 'joiner(' + repr('|') + ')')}") + self.show("c()" if self.chance(0.5) else "c.next()") + self.show(self.one("c()", "c.next()", "c.current", "c.reset()", "c.next()"))
        if kind == "block":
            name = self.one("p", "q", "r")
            return self.tag(f"block {name}{self.one('', ' scoped')}") + self.body(depth) + self.tag(self.one("endblock", f"endblock {name}")) + (self.show(f"self.{name}()") if self.chance(0.3) else "")
        if kind == "print":
            return self.tag(f"print {v()}, {v()}")
        return self.tag("generation") + self.body(depth) + self.tag("endgeneration")

    def template(self):
        if self.chance(0.5):
            return self.show(self.value(self.one(*TYPES), self.random.randint(1, 4)))
        out = self.body(self.random.randint(1, 3))
        if self.chance(0.1):  # and now and then something is wrong in it
            at = self.random.randint(0, len(out))
            out = out[:at] + self.one("{%", "}}", "%}", "(", "|", " is ", "[", "\"", "{{", ")", "~", ".5", "#}", "not ") + out[at + self.random.randint(0, 2):]
        return out


def generated(seed):
    return Draw(seed).template(), VARIABLES
