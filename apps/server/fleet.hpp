// The models that are served, the engines and devices that serve them, and the routing of requests.
#pragma once

#include "apps/server/errors.hpp"
#include "apps/server/log.hpp"
#include "apps/server/replica.hpp"
#include "placement/controller.hpp"
#include "placement/moves.hpp"

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace paceline::apps::serve {

struct FleetModel {
  std::string name;
  std::string checkpoint; ///< Path or name that its engine opens.
  std::string draft;      ///< Draft of the engine; empty: the one for all models.
  bool operator==(const FleetModel&) const = default;
};

/// A placement of models on devices. All parts refer to each other by index.
struct FleetPlan {
  std::vector<FleetModel> models;
  placement::Problem problem;       ///< These models; its memory is all that an engine may take.
  std::vector<std::string> devices; ///< Names of the devices.
  placement::Placement placement;   ///< Each device is in one group.
};

struct FleetOptions {
  bool refuse_late = true; ///< Requests that would miss their objective are refused, not late.
  std::chrono::milliseconds replan{0}; ///< How often a new plan is made, from what came; 0: never.
  ParserNames parsers;                 ///< How answers are taken apart.
};

/// Opens an engine on a group's devices, stage by stage, with so many shards of each stage, within
/// that many bytes of each device. Called on a thread of its own, one call at a time.
using OpenEngine =
    std::function<Result<Engine>(const FleetModel&, const std::vector<std::string>& devices,
                                 int shards, std::uint64_t memory_bytes)>;

/// Sizes of the models' vocabularies, by name.
using Vocabularies = std::map<std::string, int, std::less<>>;

/// The engines, each on a group of devices. The placement's controller decides which of them gets a
/// request. Models are loaded and unloaded one at a time. A model that is to be unloaded gets no
/// new request, and goes when the last one has ended; requests for a model that is being loaded
/// wait for it. Threads: the server's only.
class Fleet {
public:
  using Clock = std::chrono::steady_clock;

  Fleet(boost::asio::any_io_executor executor, Log& log, FleetOptions options);
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;
  /// Closes the engines that it opened.
  ~Fleet();

  /// Serves one engine for one model, under all these names; the engine stays the caller's.
  void open(const std::vector<std::string>& names, Engine& engine);
  /// Loads the models of the plan. opened: called when each was loaded, or could not be, with the
  /// number of engines there are then.
  void open(const FleetPlan& plan, OpenEngine open, std::function<void(std::size_t)> opened);
  /// Moves models to where another plan has them. Models that it does not name are unloaded, and
  /// those that it describes otherwise than before are opened anew.
  void change(const FleetPlan& plan);
  /// Refuses the requests that wait, and moves no more models.
  void stop();

  /// A request's place in an engine, for as long as the object lives.
  class Turn {
  public:
    Turn(Fleet& fleet, placement::Controller::Ticket ticket, std::shared_ptr<Replica> replica)
        : fleet_(&fleet), ticket_(ticket), replica_(std::move(replica)) {}
    Turn(Turn&& other) noexcept
        : fleet_(std::exchange(other.fleet_, nullptr)), ticket_(other.ticket_),
          replica_(std::move(other.replica_)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn();
    Replica& replica() const { return *replica_; }

  private:
    Fleet* fleet_;
    placement::Controller::Ticket ticket_;
    std::shared_ptr<Replica> replica_;
  };

  /// Finds the engine that answers a request for a model (empty: the only one there is), once it is
  /// there; or says why none does. latest: until when it waits. given_up: called when something has
  /// changed (`wake`).
  boost::asio::awaitable<ApiResult<Turn>> turn(std::string name, Clock::time_point arrived,
                                               Clock::time_point latest,
                                               std::function<bool()> given_up);
  /// Returns any engine of that model, for what all of them have in common.
  ApiResult<std::shared_ptr<Replica>> any(const std::string& name) const;
  void wake();

  struct Served {
    std::string name;
    std::optional<int> max_model_len; ///< None: the model is being loaded.
    std::vector<std::string> devices; ///< Devices of each engine, such as "cpu:0".
  };
  /// Returns the models that may be asked for now.
  std::vector<Served> served() const;
  /// Returns the vocabularies of the models that have an engine; under "" that of the only model.
  /// The result is a copy, for any thread.
  Vocabularies vocabularies() const;
  /// Returns all engines.
  std::vector<std::shared_ptr<Replica>> replicas() const;
  /// Whether any engine works.
  bool well() const;

  /// A request of the operator to load a model while others serve.
  struct Loading {
    FleetModel model;                          ///< Fields may be empty if the model is known.
    std::optional<std::uint64_t> memory_bytes; ///< None: as before, like the next two.
    std::optional<double> latency_seconds;
    std::optional<double> objective_seconds;
    std::string device; ///< A group's name ("cpu:0", "cpu:0+cpu:1"); empty: the one with most room.
  };
  /// Returns the names of its devices when the model is there.
  boost::asio::awaitable<ApiResult<std::string>> load(Loading asked);
  /// Returns when the model has gone. device: a group's name; empty: all of them.
  boost::asio::awaitable<ApiResult<void>> unload(std::string name, std::string device);

  /// Returns the counts for the metrics.
  ServerMetrics::Placed counts() const;
  /// Whether this fleet may load and move models.
  bool manages() const { return bool(open_engine_); }

private:
  using Place = std::pair<int, int>; ///< Group and model.
  struct Entry {
    FleetModel model;
    std::optional<Error> failure = {}; ///< Error of its last loading.
    bool wanted = true;                ///< False after the operator unloaded it.
  };

  std::optional<int> find(const std::string& name) const;
  ApiError unknown(const std::string& name) const;
  ApiError late(int model, const placement::Dispatch& dispatch, double deadline) const;
  ApiError absent(int model, bool for_operator) const;
  double seconds(Clock::time_point time) const;
  std::string devices_of(int group) const;

  void merge(const FleetPlan& plan);
  bool adopt(const std::vector<int>& models, const placement::Placement& found);
  int add_model(FleetModel model, placement::Model costs);
  int group_of(const std::vector<std::string>& devices, placement::Shape shape);
  placement::Placement planned(const placement::Placement& all) const;
  /// Adds an engine for requests. held_ has its place already.
  void host(Place place, std::shared_ptr<Engine> engine);
  void drop(const Replica& ended);
  void retire(Place place, Replica* replica);
  void gone(Place place);
  void route();
  boost::asio::awaitable<void> changed(Clock::time_point until = Clock::time_point::max());
  boost::asio::awaitable<void> settle();
  boost::asio::awaitable<void> settled();
  boost::asio::awaitable<void> load(Place place);
  boost::asio::awaitable<void> unload(Place place);
  boost::asio::awaitable<void> follow_load();
  boost::asio::awaitable<void> replan();
  ApiResult<int> prepare(Loading& asked);
  ApiResult<int> room_for(int model, const std::string& device) const;

  boost::asio::any_io_executor executor_;
  Log& log_;
  FleetOptions options_;
  Clock::time_point begin_ = Clock::now();
  OpenEngine open_engine_;

  std::vector<Entry> models_;
  std::vector<std::pair<std::string, int>> names_; ///< Clients' names, with indices of models.
  std::vector<std::string> devices_;
  placement::Problem problem_;
  placement::Placement held_;   ///< Models in memory, or coming or going.
  placement::Placement wanted_; ///< Models where they should be.
  /// The groups of the plan. Groups of earlier plans, which may have the same devices, get no
  /// model.
  std::vector<std::size_t> planned_;
  std::map<Place, std::shared_ptr<Replica>> replicas_; ///< Engines that get requests.
  placement::Controller controller_;

  std::set<boost::asio::steady_timer*> waiting_; ///< Timers of those who wait for a change.
  bool moving_ = false;
  std::atomic<bool> stopping_ = false;
  std::map<std::string, double> late_;  ///< Requests refused for their objective, by model.
  std::map<std::string, double> moves_; ///< Number of moves, by kind.
  boost::asio::thread_pool loader_{1};
  boost::asio::thread_pool planner_{1};
};

} // namespace paceline::apps::serve
