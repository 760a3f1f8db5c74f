#include "apps/console/plan/file.hpp"

#include "apps/console/plan/fields.hpp"
#include "placement/cost.hpp"
#include "placement/limits.hpp"

#include <cmath>
#include <fmt/format.h>
#include <set>
#include <sstream>

namespace paceline::apps::plan {
namespace {

namespace limits = placement::limits;
constexpr int version = 1;
constexpr const char* heading =
    "# Which models lie on which devices: written by paceline plan (docs/placement.md).\n";

toml::array texts(const std::vector<std::string>& all) {
  toml::array list;
  for (const std::string& one : all)
    list.push_back(one);
  return list;
}

/// Adds the growth of batches, which is left out where there are none.
void insert_growth(toml::table& table, const std::vector<double>& growth) {
  toml::array list;
  for (const double one : growth)
    list.push_back(one);
  if (!growth.empty())
    table.insert("batch_growth", std::move(list));
}

toml::table to_table(const PlacementFile::Model& model) {
  toml::table table{{"name", model.name}};
  if (!model.checkpoint.empty())
    table.insert("checkpoint", model.checkpoint);
  if (!model.draft.empty())
    table.insert("draft", model.draft);
  table.insert("latency_seconds", model.latency_seconds);
  table.insert("memory_bytes", std::int64_t(model.memory_bytes));
  if (model.objective_seconds)
    table.insert("objective_seconds", *model.objective_seconds);
  insert_growth(table, model.batch_growth);
  return table;
}

toml::table to_table(const PlacementFile::Group& group) {
  toml::array models;
  for (const PlacementFile::Hosted& hosted : group.models) {
    toml::array stages;
    for (const double seconds : hosted.stage_seconds)
      stages.push_back(seconds);
    toml::table model{{"name", hosted.model}, {"stage_seconds", std::move(stages)}};
    insert_growth(model, hosted.batch_growth);
    models.push_back(std::move(model));
  }
  return toml::table{{"devices", texts(group.devices)},
                     {"pipeline", group.shape.pipeline},
                     {"tensor", group.shape.tensor},
                     {"models", std::move(models)}};
}

class FileReader {
public:
  PlacementFile read(const toml::table& table) {
    Fields top(table, "the file");
    top.required("version", top.whole("version", version, version), "write version = 1");
    const toml::table* devices = top.table("devices");
    top.required("[devices]", devices ? std::optional(true) : std::nullopt,
                 "write names and memory_bytes");
    read_devices(*devices);
    for (const toml::table* model : top.tables("models"))
      read_model(*model);
    for (const toml::table* group : top.tables("groups"))
      read_group(*group);
    top.end();
    return std::move(file_);
  }

private:
  void read_devices(const toml::table& table) {
    Fields fields(table, "[devices]");
    file_.devices = fields.texts("names");
    file_.device_memory_bytes = fields.required("memory_bytes", fields.memory("memory_bytes"),
                                                "say how much an engine may take of each");
    file_.contention = read_contention(fields);
    fields.end();
    for (const std::string& device : file_.devices)
      if (!known_devices_.insert(device).second)
        fields.wrong("names", "has " + device + " twice", "name each device once");
    if (file_.devices.empty() || file_.devices.size() > std::size_t(limits::devices_max))
      fields.wrong("names", fmt::format("has {} devices", file_.devices.size()),
                   fmt::format("name 1 to {}", limits::devices_max));
  }

  void read_model(const toml::table& table) {
    Fields fields(table, "[[models]]");
    PlacementFile::Model model;
    model.name = fields.required("name", fields.text("name"), "give each model one");
    model.checkpoint = fields.text("checkpoint").value_or("");
    model.draft = fields.text("draft").value_or("");
    model.latency_seconds =
        fields.required("latency_seconds", fields.number("latency_seconds", 0, HUGE_VAL),
                        "say how long a request takes on one device");
    model.memory_bytes = fields.required("memory_bytes", fields.memory("memory_bytes"),
                                         "say what its engine may take");
    model.objective_seconds = fields.number("objective_seconds", 0, HUGE_VAL);
    model.batch_growth = read_growth(fields, "batch_growth", 1);
    fields.end();
    if (!names_.insert(model.name).second)
      fields.wrong("name", "is another model's, too", "give each one a name of its own");
    file_.models.push_back(std::move(model));
  }

  void read_group(const toml::table& table) {
    Fields fields(table, "[[groups]]");
    PlacementFile::Group group;
    group.devices = fields.texts("devices");
    group.shape.pipeline = int(fields.whole("pipeline", 1, limits::pipeline_max).value_or(1));
    group.shape.tensor = int(fields.whole("tensor", 1, limits::tensor_max).value_or(1));
    if (int(group.devices.size()) != group.shape.devices())
      fields.wrong("devices", fmt::format("has {} devices", group.devices.size()),
                   fmt::format("name pipeline times tensor, which is {}", group.shape.devices()));
    for (const std::string& device : group.devices)
      if (!known_devices_.contains(device))
        fields.wrong("devices", "has " + device + ", which [devices] does not name",
                     "add it there");
      else if (!devices_.insert(device).second)
        fields.wrong("devices", "has " + device + " which is named before",
                     "give each device to one group");
    for (const toml::table* model : fields.tables("models"))
      group.models.push_back(read_hosted(*model, group));
    fields.end();
    file_.groups.push_back(std::move(group));
  }

  PlacementFile::Hosted read_hosted(const toml::table& table,
                                    const PlacementFile::Group& group) const {
    Fields fields(table, "models of a group");
    PlacementFile::Hosted hosted;
    hosted.model = fields.required("name", fields.text("name"), "name a model of [[models]]");
    hosted.stage_seconds = fields.numbers("stage_seconds", 0, HUGE_VAL);
    hosted.batch_growth = read_growth(fields, "batch_growth", 1);
    fields.end();
    if (!names_.contains(hosted.model))
      fields.wrong("name", "is no model of the file", "list it under [[models]] above");
    for (const PlacementFile::Hosted& other : group.models)
      if (other.model == hosted.model)
        fields.wrong("name", "is named twice in its group", "name it once");
    if (int(hosted.stage_seconds.size()) != group.shape.pipeline)
      fields.wrong("stage_seconds", fmt::format("has {} stages", hosted.stage_seconds.size()),
                   fmt::format("give {} times", group.shape.pipeline));
    return hosted;
  }

  PlacementFile file_;
  std::set<std::string> names_;
  std::set<std::string> known_devices_;
  std::set<std::string> devices_; ///< Devices that are in a group.
};

} // namespace

PlacementFile placement_file(const Input& input, const placement::Placement& placement) {
  PlacementFile file;
  const placement::Problem& problem = input.problem;
  file.devices = input.device_names;
  file.device_memory_bytes = problem.devices.memory_bytes;
  file.contention = problem.devices.contention;
  for (std::size_t m = 0; m < problem.models.size(); ++m) {
    const double objective = problem.models[m].objective_seconds;
    file.models.push_back({problem.models[m].name, input.checkpoints[m], input.drafts[m],
                           problem.models[m].latency_seconds, problem.models[m].memory_bytes,
                           std::isfinite(objective) ? std::optional(objective) : std::nullopt,
                           problem.models[m].growth});
  }
  for (const placement::Group& from : placement.groups) {
    if (from.models.empty())
      continue;
    PlacementFile::Group group{{}, from.shape, {}};
    for (const int device : from.devices)
      group.devices.push_back(input.device_names[std::size_t(device)]);
    for (const int index : from.models) {
      const placement::Model& model = problem.models[std::size_t(index)];
      auto [seconds, growth] = placement::stage_costs(model, from.shape, problem.devices);
      group.models.push_back({model.name, std::move(seconds), std::move(growth)});
    }
    file.groups.push_back(std::move(group));
  }
  return file;
}

std::string to_text(const PlacementFile& file) {
  toml::array models;
  for (const PlacementFile::Model& model : file.models)
    models.push_back(to_table(model));
  toml::array groups;
  for (const PlacementFile::Group& group : file.groups)
    groups.push_back(to_table(group));
  toml::table devices{{"names", texts(file.devices)},
                      {"memory_bytes", std::int64_t(file.device_memory_bytes)}};
  if (file.contention != 1)
    devices.insert("contention", file.contention);
  std::ostringstream text;
  text << toml::table{{"version", version},
                      {"devices", std::move(devices)},
                      {"models", std::move(models)},
                      {"groups", std::move(groups)}};
  return heading + text.str() + "\n";
}

Result<PlacementFile> parse_placement(const std::string& text, const std::string& name) {
  PlacementFile file;
  const auto read =
      read_toml(text, name, [&](const toml::table& table) { file = FileReader().read(table); });
  if (!read)
    return tl::unexpected(read.error());
  return file;
}

} // namespace paceline::apps::plan
