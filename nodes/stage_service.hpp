// The stage of an engine on a node.
#pragma once

#include "execution/row_pool.hpp"
#include "gpu/kv_pool.hpp"
#include "nodes/node_parts.hpp"
#include "nodes/span_log.hpp"

#include <functional>
#include <memory>

namespace paceline::nodes {

/// Runs pieces of passes on a lane of its own, in the order in which they come. It knows no
/// sequences: each piece says which pages its rows use. Threads: its owner's.
class StageService {
public:
  /// Called on the lane's thread with the result of a piece, or why it failed.
  using Done = std::function<void(Result<messages::StageDone>)>;

  /// Checks the request of an engine that is not trusted. Errors: values that no stage can have.
  static Result<void> check(const messages::OpenStage& wanted);
  /// Returns the description that engines get of such a stage, with the size of its pieces.
  static messages::StageOpened describe(const NodeParts& node, const NodeParts::Offer& offer,
                                        const messages::OpenStage& wanted);
  /// spans: gets the spans of the lane. Errors: more pages than the node gives an engine, or no
  /// memory.
  static Result<std::unique_ptr<StageService>> open(const NodeParts& node,
                                                    NodeParts::OfferRef offer,
                                                    const messages::OpenStage& wanted, Done done,
                                                    std::shared_ptr<SpanLog> spans);

  /// Takes a piece. Throws std::invalid_argument if it is invalid, std::runtime_error if there is
  /// no room.
  void take(const messages::StageRows& rows);

private:
  StageService(NodeParts::OfferRef offer, Done done, std::shared_ptr<SpanLog> spans)
      : offer_(std::move(offer)), done_(std::move(done)), spans_(std::move(spans)) {}
  void check(const messages::StageRows& rows) const;

  NodeParts::OfferRef offer_;
  Done done_;
  std::shared_ptr<SpanLog> spans_;
  int piece_rows_ = 0;
  NumberFormat format_ = NumberFormat::f32; ///< Format in which rows cross.
  std::shared_ptr<gpu::KvPool> pool_;
  std::shared_ptr<models::Workspace> workspace_;
  std::shared_ptr<execution::RowPool> in_;
  std::shared_ptr<execution::RowPool> out_;
  std::shared_ptr<gpu::Lane> lane_;
};

} // namespace paceline::nodes
