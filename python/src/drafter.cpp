#include "python/src/drafter.hpp"

#include "python/src/arrays.hpp"
#include "python/src/errors.hpp"
#include "python/src/interpreter.hpp"
#include "python/src/parts.hpp"

#include <cxxabi.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace paceline::python {
namespace {

/// A task as Python has it, which may keep it longer than the call to which it belongs.
class Task {
public:
  explicit Task(DraftTask* task) : task_(task) {}

  void end() { task_ = nullptr; }
  DraftTask& task() const {
    if (!task_)
      raise({ErrorCode::invalid_argument, "a DraftTask is used after the call that it was for",
             "propose inside of Drafter.propose"});
    return *task_;
  }
  TokenId draw_weights(const std::vector<std::pair<TokenId, float>>& pairs) const {
    std::vector<TokenWeight> weights;
    for (const auto& [token, weight] : pairs)
      weights.push_back({token, weight});
    return task().draw(weights);
  }

private:
  DraftTask* task_;
};

/// Returns "ValueError: what it says", in one line.
std::string told(const nb::python_error& failed) {
  std::string text = std::string(nb::str(failed.type().attr("__name__")).c_str()) + ": " +
                     nb::str(failed.value()).c_str();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

class PythonDrafter final : public Drafter {
public:
  explicit PythonDrafter(nb::object object) : object_(std::move(object)) {}
  ~PythonDrafter() override {
    if (interpreter_ends()) { // Python takes everything with it.
      object_.release();
      return;
    }
    const WithGil gil;
    object_.reset();
  }

  void begin(const DraftedSequence& sequence, std::span<const TokenId> tokens) override {
    call([&] { object_.attr("begin")(sequence, array_of(tokens)); });
  }
  void end(std::uint64_t sequence, std::span<const TokenId> tokens) override {
    call([&] { object_.attr("end")(sequence, array_of(tokens)); });
  }
  void propose(std::span<DraftTask* const> tasks) override {
    call([&] {
      nb::list given;
      for (DraftTask* task : tasks)
        given.append(nb::cast(Task(task)));
      try {
        object_.attr("propose")(given);
      } catch (...) {
        end_all(given);
        throw;
      }
      end_all(given);
    });
  }

private:
  static void end_all(const nb::list& tasks) {
    for (const nb::handle task : tasks)
      nb::cast<Task&>(task).end();
  }
  /// Works with the interpreter's lock; what Python throws leaves it as an exception of C++, which
  /// needs no lock.
  template <class Work>
  static void call(const Work& work) {
    std::optional<std::string> failure;
    {
      const WithGil gil;
      try {
        work();
      } catch (const nb::python_error& failed) {
        failure = told(failed);
      } catch (abi::__forced_unwind&) { // The interpreter ended within the call.
        sleep_for_good();
      }
    }
    if (failure)
      throw std::runtime_error(*failure);
  }

  nb::object object_;
};

} // namespace

std::shared_ptr<Drafter> drafter_of(nb::object object) {
  return std::make_shared<PythonDrafter>(std::move(object));
}

void add_drafter(nb::module_& module) {
  nb::class_<DrafterSampling>(module, "DrafterSampling")
      .def_ro("temperature", &DrafterSampling::temperature)
      .def_ro("top_k", &DrafterSampling::top_k)
      .def_ro("top_p", &DrafterSampling::top_p)
      .def_ro("min_p", &DrafterSampling::min_p)
      .def_ro("seed", &DrafterSampling::seed);
  nb::class_<DraftedSequence>(module, "DraftedSequence")
      .def_ro("id", &DraftedSequence::id)
      .def_ro("scope", &DraftedSequence::scope)
      .def_ro("sampling", &DraftedSequence::sampling);
  using Row = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  nb::class_<Task>(module, "DraftTask")
      .def_prop_ro("sequence", [](const Task& task) { return task.task().sequence(); })
      .def_prop_ro(
          "context", [](const Task& task) { return array_of(task.task().context()); },
          nb::rv_policy::move)
      .def_prop_ro("committed", [](const Task& task) { return task.task().committed(); })
      .def_prop_ro("wanted", [](const Task& task) { return task.task().wanted(); })
      .def_prop_ro("chance_wanted", [](const Task& task) { return task.task().chance_wanted(); })
      .def(
          "propose", [](const Task& task, TokenId token) { task.task().propose(token); },
          nb::arg("token"), "Proposes a token without a distribution.")
      .def(
          "draw",
          [](const Task& task, const Row& log_q) {
            return task.task().draw(std::span(log_q.data(), log_q.size()));
          },
          nb::arg("log_q"),
          "Draws a token from a row of log-probabilities over the vocabulary, and proposes it.")
      .def("draw", &Task::draw_weights, nb::arg("weights"),
           "Draws a token from pairs of a token and a weight, and proposes it.");
}

} // namespace paceline::python
