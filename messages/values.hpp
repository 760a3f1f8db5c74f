// The two kinds of messages: values, which hold all that they say and could leave the process, and
// local ones, which refer to memory of the process. An interface with a message that stands in
// neither list does not compile (messages/caf.hpp), nor does a value with a field that cannot leave
// (values.cpp).
//
// Time points cross as nanoseconds of the sender's steady clock, which begins anywhere: whoever
// sends them to another machine has to translate them.
#pragma once

#include "messages/caf.hpp"
#include "messages/engine.hpp"
#include "messages/node.hpp"
#include "scheduling/actions.hpp"
#include "scheduling/requests.hpp"

namespace paceline::messages {
struct ActorHandles;
}

/// X(namespace, type) for each message that is a value. CAF numbers them in this order.
#define PACELINE_VALUES(X)                                                                         \
  X(paceline::messages, Cancel)                                                                    \
  X(paceline::messages, Drain)                                                                     \
  X(paceline::messages, Drained)                                                                   \
  X(paceline::messages, Borrow)                                                                    \
  X(paceline::messages, WindowsReady)                                                              \
  X(paceline::messages, Wake)                                                                      \
  X(paceline::messages, Ping)                                                                      \
  X(paceline::messages, Pong)                                                                      \
  X(paceline::messages, OpenDraft)                                                                 \
  X(paceline::messages, DraftOpened)                                                               \
  X(paceline::messages, Refused)                                                                   \
  X(paceline::messages, DraftWork)                                                                 \
  X(paceline::messages, Drafted)                                                                   \
  X(paceline::messages, Survey)                                                                    \
  X(paceline::messages, Surveyed)                                                                  \
  X(paceline::messages, SendModel)                                                                 \
  X(paceline::messages, ModelWanted)                                                               \
  X(paceline::messages, ModelPart)                                                                 \
  X(paceline::messages, ModelTaken)                                                                \
  X(paceline::messages, ModelStored)                                                               \
  X(paceline::messages, ModelReady)                                                                \
  X(paceline::messages, ValueTaken)                                                                \
  X(paceline::messages, OpenStage)                                                                 \
  X(paceline::messages, StageOpened)                                                               \
  X(paceline::messages, StageRows)                                                                 \
  X(paceline::messages, StageDone)                                                                 \
  X(paceline::messages, ReadClock)                                                                 \
  X(paceline::messages, ClockRead)                                                                 \
  X(paceline::messages, NodeSpans)                                                                 \
  X(paceline::scheduling, Abandon)                                                                 \
  X(paceline::scheduling, Admit)                                                                   \
  X(paceline::scheduling, Commits)                                                                 \
  X(paceline::scheduling, Failed)                                                                  \
  X(paceline::scheduling, Verdicts)                                                                \
  X(paceline::scheduling, Forget)                                                                  \
  X(paceline::scheduling, KvGrow)                                                                  \
  X(paceline::scheduling, KvReset)                                                                 \
  X(paceline::scheduling, DisableDraft)                                                            \
  X(paceline::scheduling, MoveTarget)

/// The structs that values consist of.
#define PACELINE_VALUE_PARTS(X)                                                                    \
  X(paceline, DrafterCounts)                                                                       \
  X(paceline, Error)                                                                               \
  X(paceline, ModelInfo)                                                                           \
  X(paceline, SpeculationStats)                                                                    \
  X(paceline, StageInfo)                                                                           \
  X(paceline, TokenLogprob)                                                                        \
  X(paceline::messages, DraftForking)                                                              \
  X(paceline::messages, DraftFrom)                                                                 \
  X(paceline::messages, DraftedFork)                                                               \
  X(paceline::messages, DraftedGuesses)                                                            \
  X(paceline::messages, DraftedTokens)                                                             \
  X(paceline::messages, ModelFile)                                                                 \
  X(paceline::gpu, PageCopy)                                                                       \
  X(paceline::gpu, Quantization)                                                                   \
  X(paceline::messages, NodeDevice)                                                                \
  X(paceline::messages, OpenedFork)                                                                \
  X(paceline::messages, StageLayers)                                                               \
  X(paceline::messages, StageSequence)                                                             \
  X(paceline::messages, NodeSpan)                                                                  \
  X(paceline::messages, TokenProbability)                                                          \
  X(paceline::sampling, JudgedByMargin)                                                            \
  X(paceline::sampling, Noise)                                                                     \
  X(paceline::sampling, Warping)                                                                   \
  X(paceline::speculation, Epoch)                                                                  \
  X(paceline::speculation, SequenceSpec)                                                           \
  X(paceline::scheduling, Committed)                                                               \
  X(paceline::scheduling, Continuation)                                                            \
  X(paceline::scheduling, Verdict)

/// The messages that are local, and the reason for each.
#define PACELINE_LOCALS(X)                                                                         \
  X(paceline::messages, ActorHandles) /* the actors themselves */                                  \
  X(paceline::messages, Connected)    /* an actor */                                               \
  X(paceline::messages, Lent)         /* the draft's inbox */                                      \
  X(paceline::messages, Logits)       /* lane, pass and step */                                    \
  X(paceline::messages, StageArrived) /* a pass */                                                 \
  X(paceline::messages, StagePass)    /* a pass */                                                 \
  X(paceline::scheduling, Batch)      /* page tables, chains, logs */                              \
  X(paceline::scheduling, KvGrant)    /* page tables */                                            \
  X(paceline::scheduling, KvPublish)  /* a log */                                                  \
  X(paceline::scheduling, KvRelease)  /* a log */                                                  \
  X(paceline::scheduling, KvReserve)  /* a log */                                                  \
  X(paceline::scheduling, Submit)     /* the caller's stream */                                    \
  X(paceline::speculation, Frontiers) /* page tables, chains, logs */

PACELINE_VALUES(PACELINE_DECLARE_INSPECT)
PACELINE_VALUE_PARTS(PACELINE_DECLARE_INSPECT)
PACELINE_LOCALS(PACELINE_DECLARE_LOCAL)
PACELINE_BEGIN_VALUES
PACELINE_VALUES(PACELINE_DECLARE_VALUE)
PACELINE_END_VALUES
