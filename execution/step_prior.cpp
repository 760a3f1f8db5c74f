#include "execution/step_prior.hpp"

#include "gpu/device.hpp"

#include <algorithm>
#include <future>
#include <memory>
#include <utility>
#include <vector>

namespace paceline::execution {
namespace {

constexpr std::size_t read_bytes = std::size_t(64) << 20; // This is more than most caches hold.
constexpr int many_rows = 64;

using Weights = std::vector<std::shared_ptr<const gpu::Weight>>;

double multiply_adds(const gpu::Weight& weight) {
  return double(weight.outputs()) * weight.inputs();
}

double bytes_of(const gpu::Weight& weight) {
  return double(weight.bytes());
}

double total(const Weights& weights, double (*of)(const gpu::Weight&)) {
  double sum = 0;
  for (const auto& weight : weights)
    sum += of(*weight);
  return sum;
}

/// Multiplies one row with some weights, and many rows with the first of them.
class Products final : public gpu::Step {
public:
  Products(Weights some, std::shared_ptr<gpu::Buffer> in, std::shared_ptr<gpu::Buffer> out)
      : some_(std::move(some)), in_(std::move(in)), out_(std::move(out)) {}

  std::string name() const override { return "calibrate"; }
  Next prepare(base::TimePoint now) override {
    begin_ = now;
    return piece_ == pieces ? Next::done : Next::ready;
  }
  gpu::Work work() const override { return {}; }
  void run(gpu::Operations& operations) override {
    if (piece_ == reading)
      for (const auto& weight : some_)
        multiply(operations, *weight, 1);
    else
      multiply(operations, *some_.front(), many_rows);
  }
  void complete(base::TimePoint now) override { seconds_[piece_++] = base::seconds(now - begin_); }
  void retire(const gpu::Retirement& how) override { retired_.set_value(how.completed); }

  /// Waits for the end, and returns zeros if the lane failed.
  std::pair<double, double> seconds() {
    if (!retired_.get_future().get())
      return {};
    return {seconds_[reading], seconds_[arithmetic]};
  }

private:
  enum Piece { warming, reading, arithmetic, pieces };

  void multiply(gpu::Operations& operations, const gpu::Weight& weight, int rows) {
    operations.linear(out_->tensor(rows, weight.outputs()), in_->tensor(rows, weight.inputs()),
                      weight);
  }

  const Weights some_;
  const std::shared_ptr<gpu::Buffer> in_;
  const std::shared_ptr<gpu::Buffer> out_;
  int piece_ = warming;
  base::TimePoint begin_;
  double seconds_[pieces]{};
  std::promise<bool> retired_;
};

/// Returns as many of the first weights as are worth reading.
Weights some_of(const Weights& all) {
  Weights some;
  for (std::size_t bytes = 0, i = 0; i < all.size() && bytes < read_bytes; ++i)
    bytes += some.emplace_back(all[i])->bytes();
  return some;
}

/// Makes a buffer for many rows of the widest weight.
Result<std::shared_ptr<gpu::Buffer>> rows_of(gpu::Device& device, const Weights& weights,
                                             int (gpu::Weight::*columns)() const) {
  int widest = 0;
  for (const auto& weight : weights)
    widest = std::max(widest, (*weight.*columns)());
  return device.allocate(sizeof(float) * many_rows * std::size_t(widest));
}

} // namespace

scheduling::StepPrior measure_step_prior(gpu::Device& device, const models::Model& model) {
  const auto name = gpu::parse_device(device.name());
  const Weights all = model.step_weights();
  if (!name || name->kind == gpu::DeviceKind::sim || all.empty())
    return {};
  const Weights some = some_of(all);
  const auto in = rows_of(device, some, &gpu::Weight::inputs);
  const auto out = rows_of(device, some, &gpu::Weight::outputs);
  const auto lane = device.open_lane("calibration");
  if (!in || !out || !lane)
    return {};
  const auto products = std::make_shared<Products>(some, *in, *out);
  if (!(*lane)->submit(products))
    return {};
  const auto [reading, arithmetic] = products->seconds();
  const models::ExpertWeights experts = model.expert_weights();
  const double byte = reading / total(some, bytes_of);
  const double work =
      total(all, multiply_adds) + experts.share * total(experts.weights, multiply_adds);
  return {byte * total(all, bytes_of), arithmetic / many_rows * work / multiply_adds(*some.front()),
          byte * total(experts.weights, bytes_of), experts.share};
}

} // namespace paceline::execution
