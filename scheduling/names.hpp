// Names of the speculation layer that this one uses throughout.
#pragma once

#include "speculation/frontier.hpp"
#include "speculation/sequence.hpp"

namespace paceline::scheduling {

using speculation::CacheResidencyRef;
using speculation::Chain;
using speculation::ChainRef;
using speculation::Drafters;
using speculation::Epoch;
using speculation::Forking;
using speculation::SequenceId;
using speculation::SequenceSpec;
using speculation::SequenceSpecRef;
using speculation::TokenLogRef;
using speculation::TokenLogView;

} // namespace paceline::scheduling
