// The language of chat templates: what Jinja makes of each.
#include "text/chat_template.hpp"

#include <doctest/doctest.h>
#include <string>

using namespace paceline;
using namespace paceline::text;

namespace {

Result<std::string> rendered(const std::string& source) {
  return ChatTemplate::parse("t", source).and_then([](const ChatTemplate& read) {
    return read.render({}, false, {});
  });
}

void renders(const std::string& source, const std::string& expected) {
  CAPTURE(source);
  const auto text = rendered(source);
  CHECK_MESSAGE(text, text.error().text());
  CHECK(text.value_or("") == expected);
}

} // namespace

TEST_CASE("what is none, empty or not there gives nothing to map and its like") {
  renders(
      R"({{ none | map('upper') | list }}{{ none | select('odd') | list }}{{ none | reject | list }}{{ none | selectattr('a') | list }}{{ none | rejectattr('a', 'eq', 1) | list }})",
      R"([][][][][])");
  renders(R"({% for tool in tools | map(attribute='name') %}never{% else %}nothing{% endfor %})",
          R"(nothing)");
  renders(
      R"({{ gone | map('nosuch') | list }}|{{ gone | join }}|{{ gone | upper }}|{{ gone | list }}|{{ gone | sum }}|{{ gone | wordcount }}|{{ gone | items | list }})",
      R"([]|||[]|0|0|[])");
  renders(R"({{ 0 | select | list }}{{ '' | map('nosuch') | list }})", R"([][])");
}

TEST_CASE("whole numbers beyond those of a double are divided as they are") {
  renders("{{ 5 / 9007199254740993 }} {{ 7 / 2 }} {{ -6 / 3 }}", "5.551115123125782e-16 3.5 -2.0");
}

TEST_CASE("a dict of what is not there, and ends of lines by a text, are mistakes") {
  CHECK_FALSE(rendered("{{ dict([][3], x=1) }}"));
  CHECK_FALSE(rendered("{{ 'a'.splitlines('x') }}"));
  renders(R"({{ 'a\nb'.splitlines(1) | length }}{{ 'a'.splitlines(false) }})", "2['a']");
}

TEST_CASE("what map and its like make gives its items once, when they are asked for") {
  renders(R"({% set odd = [1, 2, 3] | select('odd') %}{{ odd | list }}{{ odd | list }})",
          R"([1, 3][])");
  renders(
      R"({{ 'yes' if [] | select else 'no' }} {{ ([1] | select) is sequence }} {{ ([1] | map('abs')) is iterable }})",
      R"(yes False True)");
  renders(R"({{ [1, 'x', none] | map('abs') | first }})", R"(1)");
  renders(
      R"({% set seen = namespace(last=0) %}{% for i in [1, 1, 2, 2, 3] if i != seen.last %}{% set seen.last = i %}{{ i }}{% endfor %})",
      R"(123)");
}

TEST_CASE("any value that does not change may be a key") {
  renders(
      R"({% set budgets = {0: 'none', 512: 'few', none: 'any', (1, 2): 'pair', true: 'one', 2.0: 'two'} %}{{ budgets[512] }} {{ budgets[none] }} {{ budgets[1, 2] }} {{ budgets[1] }} {{ budgets[2] }} {{ 0 in budgets }} {{ budgets }})",
      R"(few any pair one two True {0: 'none', 512: 'few', None: 'any', (1, 2): 'pair', True: 'one', 2.0: 'two'})");
  renders(
      R"({{ {1: 'a', none: 2, false: 3, 1.5: 4} | tojson }} {{ {1: 2}.get(1) }} {{ {(): 'empty'}[] }})",
      R"({"1": "a", "null": 2, "false": 3, "1.5": 4} 2 empty)");
  renders(
      R"({% for k, v in {2: 'b', 1: 'a'} | dictsort %}{{ k }}{{ v }}{% endfor %} {{ dict([('a', 1), [2, 'b']], c=3) }} {{ dict({'x': 1}, x=2) }})",
      R"(1a2b {'a': 1, 2: 'b', 'c': 3} {'x': 2})");
}

TEST_CASE("call blocks hand a macro what is between their tags") {
  renders(
      R"({% macro box(title, wide=false) %}[{{ title }}:{{ caller() }}:{{ wide }}]{% endmacro %}{% call box('a') %}in{{ 1 + 1 }}side{% endcall %}{% call box('b', wide=true) %}{% endcall %})",
      R"([a:in2side:False][b::True])");
  renders(
      R"({% macro each(list) %}{% for i in list %}{{ caller(i, loop.index) }};{% endfor %}{% endmacro %}{% set x = 'out' %}{% call(item, n=0) each([5, 6]) %}{{ x }}{{ item }}/{{ n }}{% endcall %})",
      R"(out5/1;out6/2;)");
  renders(
      R"({% macro f() %}{{ caller is defined }}{% endmacro %}{{ f() }}{% for i in [1, 2] %}{% macro g() %}{{ i }}{% endmacro %}{{ g() }}{% endfor %})",
      R"(False12)");
  renders(
      R"({% macro f(a, b) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(*[1, 2, 3]) }}{{ f(1, **{'b': 2, 'c': 3}) }})",
      R"(12(3,){}12(){'c': 3})");
}

TEST_CASE("loops may be recursive, see changes, and end where they are asked to") {
  renders(
      R"({% for n in [{'v': 1, 'c': [{'v': 2, 'c': []}]}, {'v': 3, 'c': []}] recursive %}{{ n.v }}@{{ loop.depth }}({{ loop(n.c) }}){% endfor %})",
      R"(1@1(2@2())3@1())");
  renders(
      R"({% for i in [1, 1, 2] %}{{ loop.changed(i) }}{{ loop.last }}{% endfor %} {% for i in [1, 2, 3] | select('odd') %}{{ loop.index }}/{{ loop.length }}{{ loop.nextitem }} {% endfor %})",
      R"(TrueFalseFalseFalseTrueTrue 1/23 2/2 )");
  renders(
      R"({% for i in 1, 2, 3 %}{% set t %}{{ i }}{% if i == 2 %}{% break %}{% endif %}{% endset %}{{ t }}{% endfor %})",
      R"(1)");
  renders(
      R"({% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set j = joiner('; ') %}{{ j() }}x{{ j() }}y)",
      R"(ababx; y)");
}

TEST_CASE("statements of the language that need no other template are followed") {
  renders(
      R"({% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}{% filter upper | replace('X', '-') %}axb{{ 'c' }}{% endfilter %})",
      R"(3FalseA-BC)");
  renders(
      R"({% block head %}<{{ x is defined }}>{% endblock %}{% set x = 1 %}{{ self.head() }}{% print 1, 'a' %})",
      R"(<False><True>1a)");
  renders(
      R"({% if true: %}colon{% endif %}{% set ns = namespace(a=1) %}{% set ns.a, b = 2, 3 %}{{ ns.a }}{{ b }}{{ ns }})",
      R"(colon23<Namespace {'a': 2}>)");
}

TEST_CASE("texts are formatted as Python does") {
  renders(
      R"({{ '{} {1}'.format(1) if false else '{0}-{1:>4}|{0!r:<5}|{a[k]}{a.k}'.format('x', 2.5, a={'k': 'v'}) }} {{ '{:05.1f} {:,} {:+d} {:x} {:#b} {:%} {{}}'.format(3.14159, 1234567, 5, 255, 5, 0.25) }})",
      R"(x- 2.5|'x'  |vv 003.1 1,234,567 +5 ff 0b101 25.000000% {})");
  renders(
      R"({{ '%s=%05d %-4s| %.2f %x %r %%' % ('a', 42, 'b', 2.675, 255, 'q') }} {{ '%(k)s' % {'k': 1} }} {{ '%d items' | format(3) }})",
      R"(a=00042 b   | 2.67 ff 'q' % 1 3 items)");
}

TEST_CASE("texts have Python's methods") {
  renders(
      R"({{ 'abc'.center(8, '*') }}{{ 'abc'.ljust(5) }}|{{ 'abc'.rjust(5) }}|{{ '-5'.zfill(4) }}|{{ 'a-b-c'.partition('-') }}{{ 'a-b-c'.rpartition('-') }})",
      R"(**abc***abc  |  abc|-005|('a', '-', 'b-c')('a-b', '-', 'c'))");
  renders("{{ 'abcabc'.rindex('b') }}{{ 'abcabc'.find('b', 2) }}{{ 'abcabc'.count('b', 0, 3) }}{{ "
          "'abc'.startswith('b', 1) }}{{ 'aBc'.swapcase() }}{{ 'Stra\u00dfe'.casefold() }}{{ "
          "'stra\u00dfe'.upper() }}{{ 'a\tb'.expandtabs(4) }}",
          R"(441TrueAbCstrasseSTRASSEa   b)");
  renders(
      R"({{ 'abc'.isalpha() }}{{ 'ab1'.isalnum() }}{{ 'AB'.isupper() }}{{ 'aB'.islower() }}{{ 'Ab Cd'.istitle() }}{{ 'a_1'.isidentifier() }}{{ 'abc' | replace('', '-') }}{{ 'abc'.replace('', '-', 2) }})",
      R"(TrueTrueTrueFalseTrueTrue-a-b-c--a-bc)");
}

TEST_CASE("filters that Jinja has") {
  renders(
      R"({{ [3, 1, 2] | min }}{{ ['b', 'A'] | max }}{{ [1, 2.5] | sum }}{{ [[1], [2]] | sum(start=[]) }}{{ [{'n': 1}, {'n': 4}] | sum(attribute='n') }} {{ {'b': 1, 'A': 2} | dictsort }}{{ {'a': 2, 'b': 1} | dictsort(by='value', reverse=true) }})",
      R"(1b3.5[1, 2]5 [('A', 2), ('b', 1)][('a', 2), ('b', 1)])");
  renders(
      R"({{ 'one two three four' | truncate(12) }}|{{ 'one two three four' | truncate(9, true, '..', 0) }}|{{ 'a b_c d-e' | wordcount }}|{{ 'ab' | center(6) }}|{{ 2.675 | round(2) }} {{ 2.5 | round }} {{ 7 | round(-1) }} {{ 1.1 | round(0, 'ceil') }})",
      R"(one two...|one two..|4|  ab  |2.67 2.0 10 2.0)");
  renders(
      R"({{ '0x1F' | int(base=16) }} {{ '101' | int(0, 2) }} {{ '0b11' | int(base=0) }} {{ '1_000' | int }} {{ 'z' | int(base=36) }} {{ 'inf' | float }})",
      R"(31 5 3 1000 35 inf)");
  renders(
      R"({{ [1, 2, 3, 4, 5] | batch(2, 'x') | list }} {{ [1, 2, 3, 4, 5] | slice(2) | list }} {% for g in [{'k': 'b', 'v': 1}, {'k': 'A', 'v': 2}, {'k': 'B', 'v': 3}] | groupby('k') %}{{ g.grouper }}{{ g.list | length }}{% endfor %})",
      R"([[1, 2], [3, 4], [5, 'x']] [[1, 2, 3], [4, 5]] A1b2)");
  renders(
      R"({{ '<a>' | e }} {{ ('<a>' | e) + '<b>' }} {{ ('a' | safe) is escaped }} {{ 'a' is escaped }} {{ {'a': 'b c&d'} | urlencode }} {{ {'id': 1, 'x': none} | xmlattr }} {{ 2500000 | filesizeformat }} {{ [{'a': 'x'}] | map(attribute='b', default='?') | list }})",
      R"(&lt;a&gt; &lt;a&gt;&lt;b&gt; True False a=b+c%26d  id="1" 2.5 MB ['?'])");
}

TEST_CASE("tests that Jinja has") {
  renders(
      R"({{ 'AB' is upper }}{{ 'ab' is lower }}{{ 'trim' is filter }}{{ 'nosuch' is filter }}{{ 'odd' is test }}{{ 3.5 is odd }}{{ 4.0 is even }}{{ range(3) is sequence }}{{ {}.keys() is sequence }})",
      R"(TrueTrueTrueFalseTrueFalseTrueTrueFalse)");
  renders(
      R"({% set a = [] %}{% set b = a %}{{ a is sameas b }}{{ [] is sameas [] }}{{ a is sameas [] }}{{ 1 is sameas true }}{{ none is sameas none }}{{ 1 is sameas 1.0 }})",
      R"(TrueFalseFalseFalseTrueFalse)");
}

TEST_CASE("members are found as Jinja finds them") {
  renders(
      R"({{ [[1, 2], 'ab'].0.1 }}{{ {'10': 1, 10: 2}.10 }}{{ [5][] is defined }}{{ [].append is defined }}{{ 'x'.__class__ is defined }})",
      R"(22FalseFalseFalse)");
  renders(
      R"({{ range(2, 8, 3) }} {{ range(10)[2:8:2] }} {{ {'a': 1}.items() }} {{ {'a': 1}.keys() }} {{ range(3)[1] }} {{ {'a': 1}.keys()[0] is defined }})",
      R"(range(2, 8, 3) range(2, 8, 2) dict_items([('a', 1)]) dict_keys(['a']) 1 False)");
  renders(R"({{ 0x1f }} {{ 0b11 }} {{ 0o17 }} {{ 1_0.5 }} {% set grüße = 'hallo' %}{{ grüße }})",
          R"(31 3 15 10.5 hallo)");
}

TEST_CASE("what Jinja refuses is refused") {
  for (const char* source : {R"({{ [1] | map('abs') | length }})",
                             R"({{ {[]: 1} }})",
                             R"({{ [] in {} }})",
                             R"({{ gone | int }})",
                             R"({{ gone | abs }})",
                             R"({{ ['a'] | sum }})",
                             R"({{ [1, 'a'] | sort }})",
                             R"({{ 5 | list }})",
                             R"({{ {'a': 1} | dictsort(by='x') }})",
                             R"({{ 'ab' | truncate(1) }})",
                             R"({{ '{'.format(1) }})",
                             R"({{ '{}'.format() }})",
                             R"({{ '{:d}'.format('a') }})",
                             R"({{ '%d' % 'a' }})",
                             R"({{ '%s' % (1, 2) }})",
                             R"({{ 'a' % 1 }})",
                             R"({{ [].append(1) }})",
                             R"({{ {}.update({}) }})",
                             R"({{ 'abc'.index('x') }})",
                             R"({{ 'a'.center(5, 'xy') }})",
                             R"({% for i in [1] %}{{ loop([2]) }}{% endfor %})",
                             R"({% call f %}{% endcall %})",
                             R"({% for loop in [1] %}{% endfor %})",
                             R"({% set none = 1 %})",
                             R"({% macro f(a=1, b) %}{% endmacro %})",
                             R"({% include 'x' %})",
                             R"({% block a %}{% endblock %}{% block a %}{% endblock %})",
                             R"({{ x[1:2, 3] }})",
                             R"({{ f(a=1, a=2) }})",
                             R"({% for x in [] %}{{ x | nosuch }}{% endfor %})",
                             R"({{ range(100001) }})",
                             R"({{ cycler() }})",
                             R"({{ 1 is nosuch }})",
                             R"({% if 1 if 1 else 1 %}{% endif %})",
                             R"({{ 0 ** -1 }})",
                             R"({{ {(1, []): 2} }})",
                             R"({{ 012 }})",
                             R"({% do 1 %})"}) {
    CAPTURE(source);
    CHECK_FALSE(rendered(source));
  }
}
