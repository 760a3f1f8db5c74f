// Engine: each call gives the interpreter's lock up while the engine works.
#include "paceline/engine.hpp"

#include "python/src/arrays.hpp"
#include "python/src/drafter.hpp"
#include "python/src/errors.hpp"
#include "python/src/fields.hpp"
#include "python/src/interpreter.hpp"
#include "python/src/parts.hpp"
#include "python/src/stream.hpp"

#include <cmath>
#include <future>
#include <nanobind/stl/tuple.h>

namespace nb = nanobind;

namespace paceline::python {
namespace {

/// Opens an engine on a thread of its own, while this one looks for signals: they stop it between
/// two layers.
std::shared_ptr<Engine> open_engine(EngineOptions options) {
  std::stop_source enough;
  options.stop = enough.get_token();
  std::future<Result<Engine>> opening;
  {
    const WithoutGil working;
    opening = std::async(std::launch::async, [options = std::move(options)]() mutable {
      return Engine::open(std::move(options));
    });
  }
  for (bool ready = false; !ready;) {
    {
      const WithoutGil working;
      ready = opening.wait_for(std::chrono::milliseconds(50)) == std::future_status::ready;
    }
    if (!ready && PyErr_CheckSignals() != 0) {
      enough.request_stop();
      const WithoutGil working;
      opening = {}; // waits
      throw nb::python_error();
    }
  }
  std::optional<Result<Engine>> opened;
  {
    const WithoutGil working; // The other thread lets go of functions of Python's.
    opened = opening.get();
  }
  if (!*opened)
    raise(opened->error());
  return std::make_shared<Engine>(std::move(**opened));
}

/// An engine, or one that has been closed. `engine_` is touched with the interpreter's lock alone.
class OpenEngine {
public:
  OpenEngine(EngineOptions options, nb::object drafter) {
    if (!drafter.is_none())
      options.custom_drafter = drafter_of(std::move(drafter));
    if (interpreter_ends())
      raise({ErrorCode::unavailable, "the interpreter is ending", "open engines before"});
    engine_ = open_engine(std::move(options));
  }
  ~OpenEngine() {
    const WithoutGil working;
    engine_.reset();
  }
  OpenEngine(const OpenEngine&) = delete;
  OpenEngine& operator=(const OpenEngine&) = delete;

  bool closed() const { return !engine_; }
  void close(double drain) {
    auto engine = std::exchange(engine_, {});
    if (!engine)
      return;
    constexpr double year = 366.0 * 86'400;
    const std::chrono::duration<double> seconds(std::isnan(drain) ? 0.0 : std::fmin(drain, year));
    Result<void> ended;
    {
      const WithoutGil working;
      ended = engine->shutdown(std::chrono::duration_cast<std::chrono::milliseconds>(seconds));
      engine.reset();
    }
    value_or_raise(std::move(ended));
  }

  /// Works with the engine and without the lock; the engine may be closed meanwhile.
  template <class Work>
  auto use(const Work& work) const {
    auto kept = engine_;
    if (!kept)
      raise({ErrorCode::unavailable, "the engine is closed", "open another one"});
    const WithoutGil working;
    const auto engine = std::move(kept); // The last one to let go of it must not have the lock.
    return work(*engine);
  }

private:
  std::shared_ptr<Engine> engine_;
};

using Fields = std::vector<std::pair<std::string, std::string>>;
using Messages = std::vector<std::tuple<std::string, std::string, Fields>>;

std::vector<ChatMessage> messages_of(const Messages& messages) {
  std::vector<ChatMessage> conversation;
  for (const auto& [role, content, fields] : messages)
    conversation.push_back({role, content, fields});
  return conversation;
}

void add_texts(nb::class_<OpenEngine>& type) {
  type.def("tokenize", [](const OpenEngine& self, const std::string& text, bool add, bool parse) {
    return self.use([&](Engine& engine) { return engine.tokenize(text, add, parse); });
  });
  type.def("detokenize", [](const OpenEngine& self, const std::vector<TokenId>& tokens) {
    const std::string text = self.use([&](Engine& engine) { return engine.detokenize(tokens); });
    return nb::steal<nb::str>(
        PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), "replace"));
  });
  type.def("token_bytes", [](const OpenEngine& self, TokenId token, bool skip_special) {
    const auto text =
        self.use([&](Engine& engine) { return engine.token_bytes(token, skip_special); });
    return nb::bytes(text.data(), text.size());
  });
  type.def("token_name", [](const OpenEngine& self, TokenId token) {
    return self.use([&](Engine& engine) { return engine.token_name(token); });
  });
  type.def("render_chat",
           [](const OpenEngine& self, const Messages& messages, const ChatOptions& how) {
             return value_or_raise(self.use(
                 [&](Engine& engine) { return engine.render_chat(messages_of(messages), how); }));
           });
  type.def("chat_tokens",
           [](const OpenEngine& self, const Messages& messages, const ChatOptions& how) {
             return value_or_raise(self.use(
                 [&](Engine& engine) { return engine.chat_tokens(messages_of(messages), how); }));
           });
  type.def("chat_stops", [](const OpenEngine& self) {
    return self.use([](Engine& engine) { return engine.chat_stops(); });
  });
  type.def_prop_ro("chat_template", [](const OpenEngine& self) {
    return self.use([](Engine& engine) { return engine.chat_template(); });
  });
}

void add_state(nb::class_<OpenEngine>& type) {
  type.def_prop_ro("closed", &OpenEngine::closed);
  type.def_prop_ro("target", [](const OpenEngine& self) {
    return self.use([](Engine& engine) { return engine.target(); });
  });
  type.def_prop_ro("draft_model", [](const OpenEngine& self) {
    return self.use([](Engine& engine) { return engine.draft_model(); });
  });
  type.def_prop_ro("drafters", [](const OpenEngine& self) {
    return self.use([](Engine& engine) { return engine.drafters(); });
  });
  type.def("metrics", [](const OpenEngine& self) {
    return self.use([](Engine& engine) { return engine.metrics(); });
  });
}

/// The answer's log-probabilities of a prompt as an array, in which the first is no number.
Array<float> scores(const Answer& answer) {
  std::vector<float> row;
  if (answer.prompt)
    for (const TokenLogprob& token : answer.prompt->logprobs)
      row.push_back(token.logprob);
  if (!row.empty())
    row.front() = std::nanf("");
  return array_of(std::span<const float>(row));
}

} // namespace

void add_engine(nb::module_& module) {
  nb::class_<ChatOptions>(module, "ChatOptions")
      .def(nb::init<>())
      .def_rw("add_generation_prompt", &ChatOptions::add_generation_prompt)
      .def_rw("continue_final_message", &ChatOptions::continue_final_message)
      .def_rw("add_special_tokens", &ChatOptions::add_special_tokens)
      .def_rw("variables", &ChatOptions::variables);
  nb::class_<OpenEngine> type(module, "OpenEngine");
  type.def(nb::init<EngineOptions, nb::object>(), nb::arg("options"), nb::arg("drafter").none());
  type.def("close", &OpenEngine::close, nb::arg("drain"));
  type.def("submit", [](const OpenEngine& self, const Request& request) {
    auto stream = self.use([&](Engine& engine) { return engine.submit(request); });
    return new OpenStream(value_or_raise(std::move(stream)));
  });
  type.def("check", [](const OpenEngine& self, const Constraint& form) {
    value_or_raise(self.use([&](Engine& engine) { return engine.check(form); }));
  });
  add_texts(type);
  add_state(type);
  module.def("scores", &scores);
}

} // namespace paceline::python
