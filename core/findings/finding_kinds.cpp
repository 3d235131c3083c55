// The table of finding kinds.
#include <algorithm>
#include <ranges>

#include "core/findings/health/health_facts.h"

namespace moescope {
namespace {

// In the order of FindingKind.
constexpr auto kKinds = [] {
  using enum FindingSubject;
  using enum Severity;
  return std::to_array<FindingKindInfo>({
      {FindingKind::loss_not_finite, "loss NaN or infinite", "nan", severe, training},
      {FindingKind::collapsed, "collapsed", "collapsed", severe, load, "has collapsed", "have collapsed"},
      {FindingKind::collapsing, "collapsing", "collapsing", severe, load, "has been collapsing", "are collapsing"},
      {FindingKind::dead, "dead experts", "dead", severe, load, "has had dead experts", "have dead experts"},
      {FindingKind::no_recovery, "no recovery", "no-recovery", warning, load,
       "has not recovered from a jump of the load", "have not recovered from a jump of the load"},
      {FindingKind::starved, "starved experts", "starved", warning, load, "has had starved experts",
       "have starved experts"},
      {FindingKind::underused, "underused experts", "underused", warning, load, "has had underused experts",
       "have underused experts"},
      {FindingKind::hot, "hot experts", "hot", warning, load, "has had experts that are far too full",
       "have experts that are far too full"},
      {FindingKind::uneven, "uneven load", "uneven", warning, load, "has been uneven", "are uneven"},
      {FindingKind::uneven_ranks, "uneven ranks", "uneven-ranks", warning, load,
       "has had neighbouring experts that are too full together",
       "have neighbouring experts that are too full together"},
      {FindingKind::uneven_batches, "uneven batches", "uneven-batches", warning, load, "has been uneven in every batch",
       "are uneven in every batch"},
      {FindingKind::dropped_tokens, "dropped tokens", "dropped-tokens", warning, other, "has dropped many tokens",
       "drop many tokens"},
      {FindingKind::swapped_layers, "swapped layers", "swapped-layers", warning, other, "", ""},
      {FindingKind::oscillating_bias, "oscillating bias", "oscillating", warning, router,
       "has had a load that oscillates", "have loads that oscillate"},
      {FindingKind::saturated, "saturated router", "saturated", warning, router, "has had a saturated router",
       "have saturated routers"},
      {FindingKind::uninformative, "uninformative scores", "uninformative", warning, router,
       "has given every token the same scores", "give every token the same scores",
       "First find out why the router gives every token the same scores."},
      {FindingKind::no_gradient, "router without gradient", "no-gradient", warning, other},
      {FindingKind::stale_bias, "stale bias", "stale-bias", warning, load, "has had a bias that does not change",
       "have biases that do not change",
       "First find out why expert_bias does not change: while it does not, no other update rate helps."},
      {FindingKind::flat_auxiliary, "flat auxiliary loss", "flat-auxiliary", warning, router,
       "has had an auxiliary loss that does not follow its load", "have auxiliary losses that do not follow their load",
       "First find out why the auxiliary loss does not follow the load: while it does not, no other coefficient "
       "helps."},
      {FindingKind::unchanged_experts, "unchanged experts", "unchanged-experts", warning, other,
       "has had experts with unchanged weights", "have experts with unchanged weights"},
      {FindingKind::counted_twice, "counted twice", "counted-twice", note, other},
      {FindingKind::shared_excess, "shared excess", "shared-excess", note, router, nullptr, nullptr,
       "First leave padding out of the counted load: while it is counted, the router balances padding instead of "
       "text."},
      {FindingKind::bias_against_gate, "bias against gate", "bias-against-gate", warning, router,
       "has had a bias that contradicts its gate", "have a bias that contradicts their gate"},
      {FindingKind::loss_stuck, "loss stuck", "diverged", warning, training},
      {FindingKind::loss_unlogged, "loss not logged", "loss-unlogged", warning, training},
      {FindingKind::gradient_norm, "gradient norm", "gradient-norm", warning, training},
      {FindingKind::auxiliary_dominates, "auxiliary loss dominates", "auxiliary-dominates", note, other},
      {FindingKind::loss_spike, "loss spike", "spike", warning, other},
      {FindingKind::underflow, "underflow", "underflow", warning, number_format},
      {FindingKind::clipping, "clipping", "clipping", warning, number_format},
      {FindingKind::low_sqnr, "low SQNR", "low-sqnr", warning, number_format},
      {FindingKind::load_shift, "load shift", "load-shift", note, router},
      {FindingKind::by_hand, "controlled by hand", "by-hand", note, other},
      {FindingKind::alternating_texts, "alternating texts", "alternating-texts", note, other},
  });
}();
static_assert(std::ranges::equal(kKinds, std::views::iota(std::size_t{0}, kKinds.size()), {},
                                 [](const FindingKindInfo& info) { return static_cast<std::size_t>(info.kind); }) &&
              kKinds.back().kind == FindingKind::alternating_texts);

}  // namespace

std::span<const FindingKindInfo> finding_kinds() {
  return kKinds;
}

std::span<const KnownRemedy> known_remedies() {
  static const KnownRemedy kRemedies[] = {
      {&RouterConfig::bias_update_rate, "",
       "after each step raises the bias of experts below the mean and lowers that of experts above it; DeepSeek-V3: "
       "0.001",
       "arXiv:2408.15664"},
      {&RouterConfig::aux_coeff, "",
       "a loss on uneven load, whose gradient trains the gate; DeepSeek-V3 beside the bias: 0.0001 per sequence",
       "arXiv:2412.19437"},
      {&RouterConfig::z_coeff, "",
       "keeps the gate's logits small, so that scores do not saturate; it does not even out the load by itself; "
       "ST-MoE: 0.001",
       "arXiv:2202.08906"},
      {&PrecisionConfig::router_gate, "fp32",
       "FP32 keeps apart scores that are equal after rounding; Switch Transformer", "arXiv:2101.03961"},
  };
  return kRemedies;
}

const FindingKindInfo& finding_kind_info(FindingKind kind) {
  return kKinds[static_cast<std::size_t>(kind)];
}

}  // namespace moescope
