#include "apps/console/home.hpp"
#include "apps/console/output.hpp"
#include "apps/console/screen_text.hpp"
#include "apps/terminal/chat/command.hpp"
#include "apps/terminal/chat/completion.hpp"
#include "apps/terminal/chat/conversation.hpp"
#include "apps/terminal/chat/history.hpp"
#include "apps/terminal/chat/lines.hpp"
#include "apps/terminal/chat/settings.hpp"
#include "apps/terminal/chat/shade.hpp"
#include "apps/terminal/chat/status_line.hpp"
#include "apps/terminal/chat/word_wrap.hpp"

#include "tests/support/temporary_folder.hpp"

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <unistd.h>

using namespace paceline;
using namespace paceline::apps;
using paceline::testing::TemporaryFolder;
using Kind = ChatCommand::Kind;

namespace {

ChatCommand command(const std::string& line) {
  const auto parsed = parse_chat_line(line);
  REQUIRE_MESSAGE(parsed, parsed.error().text());
  return *parsed;
}

std::string set(const std::string& line, Request& request) {
  const auto done = apply_setting(command(line), request);
  return done ? *done : done.error().text();
}

} // namespace

TEST_CASE("a line is a command by its name, or a beginning that no other has") {
  CHECK(command("/help").kind == Kind::help);
  CHECK(command("/sys You are brief. ").kind == Kind::system);
  CHECK(command("/sys You are brief. ").argument == "You are brief.");
  CHECK(command("/temp 0.5").argument == "0.5");
  CHECK(command("/system").argument.empty());
  CHECK(command("/q").kind == Kind::quit);
  CHECK(command("hello /help").kind == Kind::say);
  CHECK(command("//usr/bin").argument == "/usr/bin");
  CHECK(command(" /help").argument == " /help");
  for (const ChatCommandName& each : chat_commands()) {
    CHECK(chat_help(80).find(each.name) != std::string::npos);
    CHECK(command(std::string(each.name) + (each.argument.empty() ? "" : " x")).kind == each.kind);
  }
}

TEST_CASE("a line that is no command says what is wrong and what helps") {
  for (const char* line : {"/nothing", "/s", "/", "/help me", "/save"}) {
    CAPTURE(line);
    const auto parsed = parse_chat_line(line);
    REQUIRE_FALSE(parsed);
    CHECK_FALSE(parsed.error().hint.empty());
  }
}

TEST_CASE("a beginning that several commands have says which") {
  const auto parsed = parse_chat_line("/s");
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().message == "/s could be /system, /speculation, /seed, /set, /stats, /save");
}

TEST_CASE("Tab completes commands as far as they go together, and lists them") {
  const auto rest = [](const std::string& line) { return complete_chat_line(line).rest; };
  CHECK(rest("/spec") == "ulation ");
  CHECK(rest("/he") == "lp");
  CHECK(rest("/s").empty());
  CHECK(complete_chat_line("/s").words.size() == 6);
  CHECK(rest("/set") == " ");
  CHECK(rest("spec").empty());
  CHECK(rest("//spec").empty());
  CHECK(rest("/xyz").empty());
}

TEST_CASE("Tab completes what commands take: values, files, models and formats") {
  const TemporaryFolder folder;
  const auto rest = [](const std::string& line) { return complete_chat_line(line).rest; };
  CHECK(rest("/speculation ov") == "erlap");
  CHECK(complete_chat_line("/verify ").words.size() == 4);
  CHECK(rest("/window ") == "auto");
  CHECK(rest("/set verify m") == "atch");
  CHECK(rest("/set sp") == "eculation ");
  CHECK(rest("/model demo self:mxi") == "nt8");
  CHECK(rest("/model dem") == "o ");
  folder.write("a saved chat", "");
  std::filesystem::create_directory(folder.file("a folder"));
  CHECK(rest("/load " + folder.file("a s")) == "aved chat");
  CHECK(rest("/save " + folder.file("a f")) == "older/");
  CHECK(complete_chat_line("/load " + folder.file("a ")).words.size() == 2);
  CHECK(rest("/model " + folder.file("a")) == " folder/");
}

TEST_CASE("settings change what is asked for, or say what they take") {
  Request request;
  CHECK(set("/speculation overlap", request) == "speculation overlap");
  CHECK(request.speculation == SpeculationMode::overlap);
  CHECK(set("/window 3", request) == "window 3");
  CHECK(request.window == 3);
  CHECK(set("/window auto", request) == "window auto");
  CHECK_FALSE(request.window);
  CHECK(set("/verify coupled", request) == "verify coupled");
  CHECK(request.verify == VerifyRule::coupled);
  set("/temperature 0.25", request);
  CHECK(request.sampling.temperature == 0.25f);
  set("/seed 18446744073709551615", request);
  CHECK(request.sampling.seed == 18446744073709551615u);
  set("/seed random", request);
  CHECK_FALSE(request.sampling.seed);
  for (const char* line :
       {"/window 0", "/window 99", "/window 3x", "/temperature -1", "/temperature nan",
        "/temperature hot", "/seed -1", "/verify x", "/speculation on"}) {
    CAPTURE(line);
    CHECK(set(line, request).find("cannot be") != std::string::npos);
  }
  CHECK(request.sampling.temperature == 0.25f);
}

TEST_CASE("a setting without a value says what holds") {
  Request request;
  CHECK(set("/temperature", request) == "temperature default");
  CHECK(set("/window", request) == "window auto");
  CHECK(set("/seed", request) == "seed random");
  CHECK(set("/speculation", request) == "speculation auto");
  CHECK(set("/verify", request) == "verify auto");
  set("/temperature 0.7", request);
  set("/window 3", request);
  CHECK(set("/temperature", request) == "temperature 0.7");
  CHECK(set("/window", request) == "window 3");
}

TEST_CASE("figures fit into lines that end between words") {
  const std::string figures =
      "[length] 128 tokens, 1480 tokens/s, acceptance 0.61, overlap 0.93, 0 "
      "of 57 prompt tokens cached";
  CHECK(in_lines(figures, 80) ==
        "[length] 128 tokens, 1480 tokens/s, acceptance 0.61, overlap 0.93, "
        "0 of 57\nprompt tokens cached");
  CHECK(in_lines("a\n\nb c\n", 80) == "a\n\nb c");
  CHECK(in_lines("", 80).empty());
  CHECK(speed_text(1, 0) == "1 token");
  CHECK(speed_text(2, 9.96) == "2 tokens, 10.0 tokens/s");
  CHECK(speed_text(300, 311.6) == "300 tokens, 312 tokens/s");
}

TEST_CASE("other chats' commands are known, and /set names a setting") {
  for (const char* line : {"/exit", "/bye", "/quit"})
    CHECK(command(line).kind == Kind::quit);
  CHECK(command("/clear").kind == Kind::reset);
  for (const char* line : {"/retry", "/regenerate"})
    CHECK(command(line).kind == Kind::retry);
  for (const char* given : {"temperature 0.5", "parameter temperature 0.5", "temp 0.5"}) {
    const auto set = named_setting(given);
    REQUIRE(set);
    CHECK(set->kind == Kind::temperature);
    CHECK(set->argument == "0.5");
  }
  CHECK(named_setting("save x").error().text() ==
        "there is no setting 'save': name one of system, speculation, window, verify, temperature, "
        "seed, context-shift, top_p, min_p, repetition_penalty, presence_penalty, "
        "frequency_penalty, top_k, max_tokens, min_tokens");
  CHECK(all_settings({}) == "speculation auto, window auto, verify auto, temperature default, seed "
                            "random");
  Request request;
  for (const char* given : {"parameter top_p 0.5", "top_p"})
    CHECK(apply_setting(named_setting(given).value(), request).value() == "top_p 0.5");
  set("/window 3", request);
  CHECK(all_settings(request) == "speculation auto, window 3, verify auto, temperature default, "
                                 "seed random, top_p 0.5");
}

TEST_CASE("help fits into the window") {
  for (const int columns : {60, 80, 120}) {
    const std::string help = chat_help(columns);
    for (std::size_t at = 0; at < help.size(); at = help.find('\n', at) + 1)
      CHECK(display_width(help.substr(at, help.find('\n', at) - at)) <= columns);
  }
}

TEST_CASE("~ is the home folder, as in a shell") {
  const std::string home = std::getenv("HOME");
  CHECK(with_home("~/a") == home + "/a");
  CHECK(with_home("~") == home);
  CHECK(with_home("a~/b") == "a~/b");
  CHECK(with_home("~other/b") == "~other/b");
}

TEST_CASE("chats that share a history keep each other's lines, however they end") {
  const TemporaryFolder folder;
  const std::string file = folder.file("history");
  ChatHistory one(file);
  ChatHistory other(file);
  one.remember("said in one");
  other.remember("said in\nthe other");
  one.remember("and again");
  ChatHistory later(file); // while they are there: nothing waits for their ends
  HistEvent event{};
  std::vector<std::string> lines;
  for (int got = history(later.lines(), &event, H_FIRST); got == 0;
       got = history(later.lines(), &event, H_NEXT))
    lines.emplace_back(event.str);
  CHECK(lines == std::vector<std::string>{"and again", "said in\nthe other", "said in one"});
  CHECK(std::filesystem::status(file).permissions() ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
}

TEST_CASE("a history keeps its newest lines, and is no file of another kind") {
  const TemporaryFolder folder;
  const std::string file = folder.file("history");
  {
    ChatHistory chat(file);
    for (int i = 0; i < 2500; ++i)
      chat.remember("line " + std::to_string(i));
  }
  const ChatHistory cut(file);
  std::ifstream in(file);
  CHECK(std::count(std::istreambuf_iterator<char>(in), {}, '\n') == 1001);
  const std::string strange = folder.write("strange", "no history\n");
  ChatHistory(strange).remember("x");
  std::ifstream kept(strange);
  CHECK(std::string(std::istreambuf_iterator<char>(kept), {}) == "no history\n");
}

TEST_CASE("a paste is the text that was meant, without what would be keys") {
  CHECK(pasted_text("a\rb\r\nc\nd") == "a\nb\nc\nd");
  CHECK(pasted_text("\tif x:\r\r\ty\r\r") == "\tif x:\n\n\ty");
  CHECK(pasted_text("\x1b[31mh\u00e9\x07\x7f\x03") == "[31mh\u00e9");
  CHECK(pasted_text("\n").empty());
}

TEST_CASE("lines are put together by a backslash or between quotes") {
  MessageReader reader;
  CHECK(reader.feed("one") == "one");
  CHECK_FALSE(reader.feed("two \\"));
  CHECK(reader.begun());
  CHECK(reader.feed("three") == "two \nthree");
  CHECK_FALSE(reader.begun());
  for (const char* line : {"\"\"\"", "", "a \\", "/help"})
    CHECK_FALSE(reader.feed(line));
  CHECK(reader.feed("\"\"\"") == "\na \\\n/help");
  CHECK_FALSE(reader.feed("\"\"\""));
  CHECK(reader.feed("\"\"\"") == "");
  CHECK_FALSE(reader.feed("begun \\"));
  reader.forget();
  CHECK(reader.feed("new") == "new");
  CHECK(reader.feed("") == "");
}

TEST_CASE("a conversation comes back from its file as it was") {
  Conversation talk{"Be \"brief\".", {{"user", "h\u00e9\n\x01"}, {"assistant", ""}}};
  const auto back = conversation_from_json("f", to_json(talk));
  REQUIRE(back);
  CHECK(back->system == talk.system);
  REQUIRE(back->turns.size() == 2);
  CHECK(back->turns[0].content == talk.turns[0].content);
  CHECK(back->messages().size() == 3);
  const std::string more =
      R"({"format":"paceline-chat-1","system":"","messages":[{"role":)"
      R"("assistant","content":"a","reasoning_content":"b","x":{"y":[1,null]}}]})"
      "\n";
  const auto kept = conversation_from_json("f", more);
  REQUIRE(kept);
  CHECK(kept->turns[0].fields.size() == 2);
  CHECK(to_json(*kept) == more);
  CHECK(Conversation{"", talk.turns}.messages().size() == 2);

  const auto path = std::filesystem::temp_directory_path() /
                    ("paceline-chat-" + std::to_string(::getpid()) + ".json");
  REQUIRE(save(talk, path.string()));
  CHECK(to_json(load(path.string()).value()) == to_json(talk));
  std::filesystem::remove(path);
  CHECK(load(path.string()).error().code == ErrorCode::not_found);
  CHECK(save(talk, "/no/such/folder/x").error().code == ErrorCode::unavailable);
  CHECK(!save(talk, "/dev/full")); // written to, not replaced
  CHECK(std::filesystem::is_character_file("/dev/full"));
}

TEST_CASE("the oldest message goes with its answers, and the last one stays") {
  Conversation talk;
  talk.system = "Be brief.";
  talk.turns = {{"user", "one"}, {"assistant", "call"}, {"tool", "result"}, {"assistant", "1"},
                {"user", "two"}, {"assistant", "2"},    {"user", "three"}};
  CHECK(talk.drop_oldest() == 4);
  const auto read = talk.messages();
  REQUIRE(read.size() == 4);
  CHECK(read[0].content == "Be brief.");
  CHECK(read[1].content == "two");
  CHECK(talk.drop_oldest() == 2);
  CHECK(talk.drop_oldest() == 0);
  CHECK(talk.messages().size() == 2);
  CHECK(talk.turns.size() == 7);
  CHECK(Conversation().drop_oldest() == 0);
}

TEST_CASE("what is no saved chat is refused by what it lacks") {
  for (const char* text :
       {"", "[]", "{}", R"({"format": "other"})", R"({"format": "paceline-chat-1"})",
        R"({"format": "paceline-chat-1", "messages": {}})",
        R"({"format": "paceline-chat-1", "messages": [{"role": "user"}]})",
        R"({"format": "paceline-chat-1", "messages": [{"role": 1, "content": ""}]})"}) {
    CAPTURE(text);
    const auto back = conversation_from_json("f.json", text);
    REQUIRE_FALSE(back);
    CHECK(back.error().code == ErrorCode::corrupt);
    CHECK(back.error().message.starts_with("f.json is not a saved chat"));
  }
}

TEST_CASE("text is cut where its tokens end, however late it comes") {
  Shader shader;
  shader.token("def", TokenSource::target);
  shader.token(" f", TokenSource::draft);
  shader.token("", TokenSource::lookahead); // a special token shows nothing
  shader.token("(x", TokenSource::lookahead);
  auto parts = shader.cut("def f");
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].text == "def");
  CHECK(parts[0].source == TokenSource::target);
  CHECK(parts[1].text == " f");
  CHECK(parts[1].source == TokenSource::draft);
  parts = shader.cut("(");
  REQUIRE(parts.size() == 1);
  CHECK(parts[0].source == TokenSource::lookahead);
  parts = shader.cut("x more");
  REQUIRE(parts.size() == 2);
  CHECK(parts[1].text == " more");
  CHECK(parts[1].source == TokenSource::target);
}

TEST_CASE("a character that tokens share is never cut, and goes to who completes it") {
  Shader shader;
  shader.token("a\xF0\x9F", TokenSource::draft);
  shader.token("\x91\x8B"
               "b",
               TokenSource::target);
  std::string all;
  const auto parts = shader.cut("a\U0001F44Bb");
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].text == "a");
  CHECK(parts[0].source == TokenSource::draft);
  CHECK(parts[1].text == "\U0001F44Bb");
  CHECK(parts[1].source == TokenSource::target);
}

TEST_CASE("shades begin and end within a line") {
  CHECK(shaded("a\n\nb", TokenSource::draft) == "\x1b[36ma\x1b[0m\n\n\x1b[36mb\x1b[0m");
  CHECK(shaded("\n", TokenSource::draft) == "\n");
  CHECK(shaded("a", TokenSource::draft) != shaded("a", TokenSource::lookahead));
  CHECK(shaded("a", TokenSource::target) != shaded("a", TokenSource::lookahead));
}

TEST_CASE("nothing that a model writes commands the terminal") {
  CHECK(printable("a\x1b[2J\x07\r\x7f\tb\n") == "a\u241b[2J\u2407\u240d\u2421\tb\n");
  CHECK(printable("\u009b31m") == "\ufffd31m");             // CSI in one character
  CHECK(printable("\u202eabc\u2066") == "\ufffdabc\ufffd"); // turned around
  CHECK(printable("h\u00e9 \U0001F44B") == "h\u00e9 \U0001F44B");
  std::string every;
  for (char c = 1; c < 0x20; ++c)
    every += c;
  for (const char c : printable(every))
    CHECK((static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t'));
}

TEST_CASE("widths are columns") {
  CHECK(display_width("abc") == 3);
  CHECK(display_width("\u4f60\u597d") == 4);
  CHECK(display_width("e\u0301") == 1);
  CHECK(clipped("\u4f60\u597d", 3) == "\u4f60");
  CHECK(fitted("\u4f60\u597d", 3) == "\u4f60 ");
  CHECK(fitted("abc", 5) == "abc  ");
  CHECK(wrapped("abcdef\ng\n", 4) == std::vector<std::string>{"abcd", "ef", "g", ""});
  CHECK(wrapped_words("one two three fourfive", 7) ==
        std::vector<std::string>{"one two", "three", "fourfiv", "e"});
  CHECK(wrapped_words("", 7) == std::vector<std::string>{""});
}

TEST_CASE("the status stands below the text, and the cursor goes back to its end") {
  StatusLine line;
  CHECK(line.write("ab", 10) == "ab"); // no figures yet
  line.set("12 tokens");
  const std::string below = "\033D\033[A\0337\r\n\033[?7l";
  CHECK(line.write("c", 10) == "c" + below + "12 tokens\033[?7h\0338");
  line.set("a long status");
  CHECK(line.write("\nd", 10) == "\033[J\nd" + below + "a long st\033[?7h\0338");
  CHECK(line.write("e", 10, false) == "\033[Je");
  CHECK(line.write("f", 10, false) == "f");
  CHECK(line.clear().empty());
}

namespace {

/// What is shown of text that comes one byte at a time (of ASCII), in lines of at most 10 columns.
std::string in_lines(const std::string& text) {
  WordWrap wrap;
  std::string shown;
  for (const char c : text)
    shown += wrap.write(std::string(1, c), {}, 10);
  return shown + wrap.finish(10);
}

} // namespace

TEST_CASE("lines end between words, however the text comes") {
  CHECK(in_lines("one two three four") == "one two\nthree four");
  CHECK(in_lines("  indented words") == "  indented\nwords");
  CHECK(in_lines("ends  \n\n  here ") == "ends\n\n  here");
  CHECK(in_lines("a\tb\tc") == "a\tb\nc");
  CHECK(in_lines("a verylongwordindeed b") == "a\nverylongwo\nrdindeed b");
  WordWrap wrap;
  CHECK(wrap.write("one two thr", {}, 10) == "one two");
  CHECK(wrap.column() == 7);
  CHECK(wrap.write("ee ", {}, 10) == "\nthree");
  CHECK(wrap.column() == 5);
  CHECK(wrap.finish(10).empty());
}

TEST_CASE("scripts without blanks need not wait for one, and the window may become narrower") {
  WordWrap wrap;
  CHECK(wrap.write("\u4f60\u597d\u4f60", {}, 5) == "\u4f60\u597d\n\u4f60");
  CHECK(wrap.column() == 2);
  CHECK(wrap.write("12345678 ", {}, 20) == "12345678");
  CHECK(wrap.column() == 10);
  CHECK(wrap.write("ab ", {}, 6) == "\nab");
}

TEST_CASE("a word of several sources keeps their shades") {
  WordWrap wrap;
  CHECK(wrap.write("a wo", TokenSource::target, 6) == shaded("a", TokenSource::target));
  CHECK(wrap.write("rds ", TokenSource::draft, 6) ==
        "\n" + shaded("wo", TokenSource::target) + shaded("rds", TokenSource::draft));
}
