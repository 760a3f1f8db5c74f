// paceline chat in a real terminal.
#include "tests/apps/support.hpp"
#include "tests/terminal/tmux.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

using namespace paceline::testing;

namespace {

/// A chat whose answers no machine is done with before a key is pressed.
const std::string endless = " -m scripted -d scripted:acceptance=0.8";

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The characters of a text, wherever its lines end.
std::string without_blanks(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n' || c == '\t'; });
  return text;
}

/// What the figures below an answer say; 0: there are none.
int tokens_below(const std::string& screen) {
  const std::size_t end = screen.find(" tokens, ", screen.rfind('\n', screen.find("tokens/s")));
  return end == screen.npos ? 0 : std::atoi(screen.c_str() + screen.rfind('\n', end) + 1);
}

/// The chat with a state folder of its own, in a window that no remark is too long for.
class Chat {
public:
  explicit Chat(const std::string& options, const std::string& environment = "", int columns = 160,
                int rows = 40)
      : terminal("env LC_ALL=C.UTF-8 XDG_STATE_HOME=" + state.path() + " " + environment +
                     " " PACELINE_PROGRAM " chat " + options,
                 columns, rows) {
    terminal.await("/help lists");
    await_prompt();
  }
  std::string await_prompt() const {
    return terminal.await([](const std::string& shown) {
      const std::size_t last = shown.find_last_not_of('\n');
      return last != shown.npos && shown.substr(0, last + 1).ends_with("\n>");
    });
  }
  void say(const std::string& text) const {
    terminal.type(text);
    terminal.press({"Enter"});
  }
  std::string history() const { return file_text(state.file("paceline/chat_history")); }

  TemporaryFolder state;
  Tmux terminal;
};

} // namespace

TEST_SUITE_BEGIN("terminal");

TEST_CASE("a chat answers, shows its figures, and keeps the conversation cached" *
          doctest::skip(!Tmux::available())) {
  const Chat chat("-n 40 --temperature 0");
  chat.say("def fibonacci(n):");
  CHECK(chat.terminal.await("[length] 40 tokens").find("acceptance") != std::string::npos);
  chat.await_prompt();
  chat.say("def factorial(n):");
  const auto shown = chat.terminal.await(
      [](const std::string& screen) { return count(screen, "prompt tokens cached") == 2; });
  CHECK(shown.find(", 0 of 8 prompt tokens cached") != std::string::npos);
  CHECK(count(shown, ", 0 of ") == 1); // the second turn found the first
  chat.await_prompt();
  chat.say("/stats");
  chat.terminal.await("2 answers, 80 tokens");
  chat.terminal.press({"C-d"});
  chat.terminal.await("left 0");
  CHECK(chat.history().find("fibonacci") != std::string::npos);
}

TEST_CASE("Ctrl-C stops the answer, or the line being typed, and Ctrl-D leaves" *
          doctest::skip(!Tmux::available())) {
  const Chat chat(endless);
  chat.say("1 2 3");
  chat.terminal.await("(Ctrl-C stops)"); // the figures below the text
  chat.terminal.press({"C-c"});
  chat.terminal.await("[cancelled]");
  CHECK(chat.await_prompt().find("(Ctrl-C stops)") == std::string::npos);
  chat.terminal.type("never said");
  chat.terminal.await("> never said");
  chat.terminal.press({"C-c"});
  chat.await_prompt();
  chat.say("/stats");
  chat.terminal.await("1 answer, "); // the session is the same
  chat.terminal.press({"C-d"});
  chat.terminal.await("left 0");
}

TEST_CASE("the window may change its size in the middle of an answer, and no text is lost" *
          doctest::skip(!Tmux::available())) {
  // The same tokens at any speed: so many that no machine is done with them before the keys.
  const std::string options = "-n 900 --temperature 0.8 --seed 2 --device sim:";
  const std::string message = "class Parser(object):";
  const std::string text =
      run_process({"/bin/sh", "-c", PACELINE_PROGRAM " chat -q " + options + "0.1ms"}, message)
          .output;
  const Chat chat(options + "20ms", "", 80, 24);
  chat.say(message);
  int tokens = 0;
  for (const auto& [columns, rows] : {std::pair(50, 15), {120, 30}, {33, 10}, {80, 24}}) {
    chat.terminal.await([&](const std::string& s) { return tokens_below(s) > tokens + 20; });
    tokens = tokens_below(chat.terminal.screen());
    chat.terminal.resize(columns, rows);
  }
  chat.terminal.press({"C-c"});
  chat.terminal.await("[cancelled]");
  const std::string all = chat.terminal.screen(Tmux::Shown::all);
  const std::size_t begin = all.find("> " + message) + 2 + message.size();
  const std::string shown = without_blanks(all.substr(begin, all.find("[cancelled]") - begin));
  CHECK(shown.size() > 100);
  CHECK(shown == without_blanks(text).substr(0, shown.size()));
}

TEST_CASE("the window may change its size at the prompt, and what is typed is shown once" *
          doctest::skip(!Tmux::available())) {
  const Chat chat("--no-history -n 4 --temperature 0");
  const std::string typed =
      "some words that were typed before the window changed its size, and more";
  chat.terminal.type(typed);
  chat.terminal.await("> " + typed);
  for (const int columns : {50, 100, 33, 90}) {
    chat.terminal.resize(columns, 40);
    chat.terminal.type("."); // shown behind what has been drawn anew
    chat.terminal.await([&](const std::string& shown) {
      return without_blanks(shown).find(without_blanks(typed) + ".") != std::string::npos;
    });
    chat.terminal.press({"BSpace"});
    const auto shown = chat.terminal.await([&](const std::string& all) {
      return without_blanks(all).ends_with(without_blanks(">" + typed));
    });
    CHECK(count(without_blanks(shown), "somewords") == 1);
  }
}

TEST_CASE("two chats keep each other's history, and one whose window is closed keeps its own" *
          doctest::skip(!Tmux::available())) {
  const TemporaryFolder state;
  const auto chat = [&] {
    return std::make_unique<Tmux>("env LC_ALL=C.UTF-8 XDG_STATE_HOME=" + state.path() +
                                      " " PACELINE_PROGRAM " chat -n 2",
                                  90, 40);
  };
  const auto kept = [&] { return file_text(state.file("paceline/chat_history")); };
  auto one = chat();
  auto other = chat();
  for (const auto& [terminal, text] : {std::pair(one.get(), "one"), {other.get(), "two"}}) {
    terminal->await("/help lists");
    terminal->type(text);
    terminal->press({"Enter"});
    terminal->await("[length]");
  }
  one.reset(); // the window is closed
  other->press({"C-d"});
  other->await("left 0");
  CHECK(kept().find("one") != std::string::npos);
  CHECK(kept().find("two") != std::string::npos);
}

TEST_CASE("Tab lists what could stand there, and figures keep within 80 columns" *
          doctest::skip(!Tmux::available())) {
  const Chat chat("-n 40 --temperature 0", "", 80, 40);
  chat.terminal.type("/s");
  chat.terminal.press({"Tab"});
  chat.terminal.await("/system  /speculation  /seed  /set  /stats  /save\n> /s");
  chat.terminal.press({"C-u"});
  chat.say("def fibonacci(n):");
  const std::string shown = chat.terminal.await(
      [](const std::string& rows) { return rows.find("cached\n") != std::string::npos; },
      Tmux::Shown::rows);
  const std::size_t begin = shown.find("[length] 40 tokens, ");
  REQUIRE(begin != std::string::npos);
  const std::string figures = shown.substr(begin, shown.find("cached\n", begin) - begin);
  for (const char* whole : {"tokens/s", "acceptance", "overlap", "prompt"})
    CHECK(figures.find(whole) != std::string::npos);
}

TEST_CASE("what is typed during an answer is not shown in it, and is there afterwards" *
          doctest::skip(!Tmux::available())) {
  const Chat chat("-n 200 --temperature 0.8 --seed 2 --device sim:20ms");
  chat.say("class Parser(object):");
  chat.terminal.await("(Ctrl-C stops)");
  chat.terminal.type("typed ahead");
  chat.terminal.await("> typed ahead");
  CHECK(count(chat.terminal.screen(Tmux::Shown::all), "typed ahead") == 1);
}

TEST_CASE("what is pasted is one message" * doctest::skip(!Tmux::available())) {
  const Chat chat("-n 4 --temperature 0");
  chat.terminal.paste("/first\n\n\tsecond\n");
  chat.terminal.await("second");
  chat.say(" and third");
  chat.terminal.await("[length] 4 tokens");
  chat.await_prompt();
  const std::string file = chat.state.file("saved");
  chat.say("/save " + file);
  chat.terminal.await("2 messages in ");
  CHECK(file_text(file).find(R"("/first\n\n\tsecond and third")") != std::string::npos);
}

TEST_CASE("the prompt comes back after Ctrl-Z and fg" * doctest::skip(!Tmux::available())) {
  const TemporaryFolder state;
  const Tmux terminal("env LC_ALL=C.UTF-8 PS1='shell# ' XDG_STATE_HOME=" + state.path() +
                          " bash --norc --noprofile -i",
                      90, 40);
  terminal.await("shell#");
  terminal.type(PACELINE_PROGRAM " chat -n 4 --temperature 0");
  terminal.press({"Enter"});
  terminal.await("\n>");
  terminal.type("half");
  terminal.await("> half");
  terminal.press({"C-z"});
  terminal.await("Stopped");
  terminal.type("fg");
  terminal.press({"Enter"});
  terminal.await([](const std::string& shown) { return count(shown, "> half") == 2; });
  terminal.paste(" a\nb");
  terminal.await("b");
  terminal.press({"Enter"});
  terminal.await("[length] 4 tokens"); // one message, typed before and pasted after
  terminal.press({"C-d"});
}

TEST_CASE("keys edit lines: Tab, history, and messages of several lines" *
          doctest::skip(!Tmux::available())) {
  const Chat chat("-n 4 --temperature 0");
  chat.terminal.type("/spec");
  chat.terminal.press({"Tab"});
  chat.terminal.await("> /speculation");
  chat.say("off");
  chat.terminal.await("\nspeculation off");
  chat.await_prompt();
  chat.terminal.press({"Up"});
  chat.terminal.await([](const std::string& s) { return count(s, "> /speculation off") == 2; });
  chat.terminal.press({"C-u"});
  chat.say("\"\"\"");
  chat.say("x = 1");
  chat.terminal.await(". x = 1");
  chat.say("/quit is said here");
  chat.say("\"\"\"");
  chat.terminal.await("[length] 4 tokens");
  chat.await_prompt();
  chat.say("h\u00e9 \u4f60\u597d");
  chat.terminal.await("> h\u00e9 \u4f60\u597d");
  chat.terminal.await([](const std::string& s) { return count(s, "[length]") == 2; });
}

TEST_CASE("tokens are shaded by who wrote them, when asked for" *
          doctest::skip(!Tmux::available())) {
  // A fixed window, since a draft that a busy machine makes slow would be left out.
  const Chat chat("-n 40 --seed 3 --color --speculation sync --window 4", "TERM=screen-256color");
  chat.say("def fibonacci(n):");
  chat.terminal.await("[length]");
  const std::string shown = chat.terminal.screen(Tmux::Shown::codes);
  CHECK(count(shown, "\x1b[36m") > 2); // the legend, and accepted tokens
  CHECK(count(shown, "\x1b[1m") + count(shown, "\x1b[0;1m") > 1);
}

TEST_CASE("without color, and in a terminal that cannot go back, a chat is plain text" *
          doctest::skip(!Tmux::available())) {
  for (const char* environment : {"NO_COLOR=1", "TERM=dumb"}) {
    CAPTURE(environment);
    const Chat chat("-n 20 --temperature 0 --color", environment);
    chat.say("def f(x):");
    chat.terminal.await("[length] 20 tokens");
    CHECK(chat.terminal.screen(Tmux::Shown::codes).find('\x1b') == std::string::npos);
    chat.await_prompt();
    chat.terminal.press({"C-d"});
    chat.terminal.await("left 0");
  }
}

TEST_CASE("a call's result is asked for, and Ctrl-C takes back what was said" *
          doctest::skip(!Tmux::available())) {
  const TemporaryFolder folder;
  // The form allows "done" or a call, and the model goes on as before: with a call, unless a result
  // is there.
  const std::string file = folder.write(
      "template",
      "{{ tools | tojson }}{% for m in messages %}{{ m.content }};{% endfor %}"
      "{% if messages[-1].role == 'tool' %}{{ '\\ndone' * 9 }}\n{% else %}"
      "{{ '\\n<|tool_call|>[{\"name\": \"rest\", \"arguments\": {}}]' * 9 }}\n{% endif %}");
  const std::string tools = folder.write("tools.json", R"([{"name": "rest"}])");
  const Chat chat("--chat-template " + file + " --tools " + tools +
                  " --tool-call-parser granite -n 80 --temperature 0 --regex done");
  chat.say("Rest.");
  CHECK(chat.terminal.await("result of rest>").find("\u2192 rest {}") != std::string::npos);
  chat.say("rested");
  chat.terminal.await("\ndone");
  chat.await_prompt();
  chat.say("Again.");
  chat.terminal.await([](const std::string& s) { return count(s, "result of rest>") == 2; });
  chat.terminal.press({"C-c"});
  chat.terminal.await("what was said counts as not said");
  chat.await_prompt();
  chat.say("/save " + chat.state.file("saved"));
  chat.terminal.await("4 messages in ");
}

TEST_CASE("no history is kept when it is not wanted, and an error does not end the chat" *
          doctest::skip(!Tmux::available())) {
  const Chat chat("-n 4 --no-history -c 64");
  chat.say("/load /no/such/file");
  chat.terminal.await("paceline: cannot read /no/such/file");
  chat.await_prompt();
  chat.say(std::string(300, 'x') + " y");
  chat.terminal.await("/reset begins anew");
  chat.await_prompt();
  chat.say("/model /no/such/model");
  chat.terminal.await("the models stay as they were");
  chat.await_prompt();
  chat.say("/model demo");
  chat.terminal.await([](const std::string& s) { return count(s, "Target: demo") == 2; });
  chat.await_prompt();
  chat.terminal.press({"C-d"});
  chat.terminal.await("left 0");
  CHECK(chat.history().empty());
}

TEST_SUITE_END();
