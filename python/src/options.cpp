// EngineOptions: the fields of paceline/engine.hpp that have a meaning in Python. Not among them
// are `virtual_time` and `schedule_seed`, which are for simulations on one thread, and `stop`, in
// whose place Ctrl-C interrupts; `custom_drafter` is given as `draft`.
#include "python/src/fields.hpp"
#include "python/src/interpreter.hpp"
#include "python/src/parts.hpp"

#include <memory>
#include <nanobind/stl/function.h>

namespace nb = nanobind;

namespace paceline::python {
namespace {

/// A function of Python that any thread may call, keep and destroy.
class Function {
public:
  explicit Function(nb::object function) : function_(new nb::object(std::move(function)), drop) {}

  template <class... Values>
  void operator()(const Values&... values) const {
    const WithGil gil;
    try {
      (*function_)(values...);
    } catch (nb::python_error& failed) { // What it throws is told as Python tells such things.
      failed.discard_as_unraisable(*function_);
    }
  }

private:
  static void drop(nb::object* function) {
    if (interpreter_ends()) { // Python takes everything with it.
      function->release();
    } else {
      const WithGil gil;
      function->reset();
    }
    delete function;
  }
  std::shared_ptr<nb::object> function_;
};

/// Adds a function as an attribute that is set alone. Given: what Python's function gets.
template <auto Member, class... Given>
void function(nb::class_<EngineOptions>& type, const char* name) {
  using Shown = nb::typed<nb::callable, void(Given...)>;
  type.def_prop_rw(
      name, [](const EngineOptions&) { return nb::none(); },
      [name](EngineOptions& options, nb::typed<nb::object, Shown> given) {
        if (!nb::isinstance<nb::callable>(given))
          raise({ErrorCode::invalid_argument,
                 "EngineOptions::" + std::string(name) + " is " + nb::repr(given).c_str(),
                 "give a function"});
        options.*Member = [call = Function(given)](const auto&... values) { call(values...); };
      });
}

void add_models(nb::class_<EngineOptions>& type) {
  field<&EngineOptions::target>(type, "model");
  field<&EngineOptions::chat_template>(type, "chat_template");
  field<&EngineOptions::drafters>(type, "draft");
  field<&EngineOptions::draft_memory_bytes>(type, "draft_memory_bytes");
  field<&EngineOptions::dtype>(type, "dtype");
  field<&EngineOptions::weights>(type, "weights");
  field<&EngineOptions::draft_weights>(type, "draft_weights");
  field<&EngineOptions::head_weights>(type, "head_weights");
  field<&EngineOptions::weight_scales>(type, "weight_scales");
  field<&EngineOptions::activations>(type, "activations");
  field<&EngineOptions::draft_activations>(type, "draft_activations");
  field<&EngineOptions::kv_cache_dtype>(type, "kv_cache_dtype");
  field<&EngineOptions::draft_kv_cache_dtype>(type, "draft_kv_cache_dtype");
}

void add_devices(nb::class_<EngineOptions>& type) {
  field<&EngineOptions::devices>(type, "devices");
  field<&EngineOptions::pipeline_parallel_size>(type, "pipeline_parallel_size");
  field<&EngineOptions::tensor_parallel_size>(type, "tensor_parallel_size");
  field<&EngineOptions::stage_layers>(type, "stage_layers");
  field<&EngineOptions::draft_devices>(type, "draft_devices");
  field<&EngineOptions::draft_pipeline_parallel_size>(type, "draft_pipeline_parallel_size");
  field<&EngineOptions::draft_tensor_parallel_size>(type, "draft_tensor_parallel_size");
  field<&EngineOptions::node_tls>(type, "node_tls");
  field<&EngineOptions::node_rows>(type, "node_rows");
  field<&EngineOptions::draft_top_k>(type, "draft_top_k");
  field<&EngineOptions::reserve_device>(type, "reserve_device");
  field<&EngineOptions::threads>(type, "threads");
  field<&EngineOptions::memory_bytes>(type, "memory_bytes");
}

void add_scheduling(nb::class_<EngineOptions>& type) {
  field<&EngineOptions::max_model_len>(type, "max_model_len");
  field<&EngineOptions::kv_memory_bytes>(type, "kv_memory_bytes");
  field<&EngineOptions::page_tokens>(type, "page_tokens");
  field<&EngineOptions::max_num_seqs>(type, "max_num_seqs");
  field<&EngineOptions::max_waiting>(type, "max_waiting");
  field<&EngineOptions::prefill_chunk>(type, "prefill_chunk");
  field<&EngineOptions::prefill>(type, "prefill");
  field<&EngineOptions::scheduling>(type, "scheduling");
  field<&EngineOptions::batching>(type, "batching");
  field<&EngineOptions::row_budget>(type, "row_budget");
  field<&EngineOptions::time_between_tokens>(type, "time_between_tokens");
  field<&EngineOptions::speculation>(type, "speculation");
  field<&EngineOptions::window>(type, "window");
  field<&EngineOptions::lookahead>(type, "lookahead");
  field<&EngineOptions::fork_rows>(type, "fork_rows");
  field<&EngineOptions::tree_rows>(type, "tree_rows");
}

void add_faults(nb::module_& module) {
  nb::class_<FaultOptions> type(module, "FaultOptions");
  type.def(nb::init<>());
  field<&FaultOptions::restart_pause>(type, "restart_pause");
  field<&FaultOptions::restart_pause_max>(type, "restart_pause_max");
  field<&FaultOptions::restarts_max>(type, "restarts_max");
  field<&FaultOptions::restarts_forgotten>(type, "restarts_forgotten");
  field<&FaultOptions::recomputations_max>(type, "recomputations_max");
  field<&FaultOptions::stall_patience>(type, "stall_patience");
  field<&FaultOptions::heartbeat>(type, "heartbeat");
  field<&FaultOptions::stage_patience>(type, "stage_patience");
}

} // namespace

void add_options(nb::module_& module) {
  add_faults(module);
  nb::class_<NodeTls> tls(module, "NodeTls");
  tls.def(nb::init<>());
  field<&NodeTls::certificate>(tls, "certificate");
  field<&NodeTls::key>(tls, "key");
  field<&NodeTls::authority>(tls, "authority");

  nb::class_<EngineOptions> type(module, "EngineOptions");
  type.def(nb::init<>());
  add_models(type);
  add_devices(type);
  add_scheduling(type);
  field<&EngineOptions::faults>(type, "faults");
  field<&EngineOptions::trace_file>(type, "trace_file");
  function<&EngineOptions::progress, std::string, double>(type, "progress");
  function<&EngineOptions::log, std::string, std::string>(type, "log");
}

} // namespace paceline::python
