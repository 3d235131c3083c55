// Findings: faults of a run as text with evidence. They are derived from a history alone, so that live runs, recordings
// and imported logs are treated alike.
//
// A scan reads each block of kBlock steps of its history once and keeps the state of its watches, so that a step costs
// the same at the end of a long run as at its beginning. The steps after the last whole block count as well; they are
// read again when the block is complete. A scan is too slow for the GUI thread. Thresholds are declared beside the
// watch that uses them (load_watch.h, expert_watch.h, imbalance_watch.h, oscillation_watch.h, gate_watch.h,
// fault_watch.h, shift_watch.h, swap_watch.h, loss_watch.h, quant_watch.h), each with its reason. A healthy run has no
// findings, not even in its first steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "core/config/config_field.h"
#include "core/findings/comparison/comparison.h"
#include "core/findings/load_evidence.h"
#include "core/frame/metrics.h"
#include "core/model/non_finite.h"
#include "core/numerics/names.h"
#include "core/recording/history/history.h"

namespace moescope {

enum class FindingKind {
  loss_not_finite,      // NaN or Inf, now or ever
  collapsed,            // a few experts take all tokens of a layer
  collapsing,           // the number of experts in use falls steadily
  dead,                 // no token for a long time
  no_recovery,          // the load jumped in many layers; this layer has not recovered
  starved,              // hardly any tokens for a long time
  underused,            // far less than their share for a long time, so that much of the layer's capacity is idle
  hot,                  // several times its share for a long time
  uneven,               // the fullest expert has at least twice its share for a long time
  uneven_ranks,         // neighbouring experts, on one rank of expert parallelism, have far more than their share
  uneven_batches,       // an expert is far too full in every batch, but not the same one
  dropped_tokens,       // much of the load is beyond the capacity of the experts and dropped
  swapped_layers,       // two layers have exchanged their loads
  oscillating_bias,     // load and bias oscillate about the even load
  saturated,            // the scores are at the ends of their range
  uninformative,        // the scores are the same for every token
  no_gradient,          // no gradient of the loss reaches the gates
  stale_bias,           // a bias update rate is set, but the bias does not change
  flat_auxiliary,       // an auxiliary loss is set, but it is 0 or does not follow the load
  unchanged_experts,    // experts get tokens, but their weights do not change
  counted_twice,        // the loads of a layer add up to twice the tokens times top_k
  shared_excess,        // K experts have the same excess load, usually because of equal tokens, such as padding
  bias_against_gate,    // the bias favors an expert that the gate ignores, or the other way round
  loss_stuck,           // the loss does not fall, or rose and stays up, or diverged
  loss_unlogged,        // the loss is no longer logged, but other values are
  gradient_norm,        // the gradient norm grew far beyond its lowest value, or has spikes
  auxiliary_dominates,  // an auxiliary loss outweighs the cross-entropy
  loss_spike,
  underflow,
  clipping,
  low_sqnr,
  load_shift,         // the load jumped in many layers, which recovered or are recovering
  by_hand,            // settings made by the user override the router
  alternating_texts,  // the load alternates between two states, as if batches of two kinds of text alternate
};

enum class Severity { note, warning, severe };
inline constexpr auto severity_name = names_of<Severity>("note", "warning", "severe");

enum class FindingSubject : std::uint8_t {
  training,  // the training as a whole, not its routers
  load,      // a load that settings of the balance should even out
  router,    // anything else of a router and its load
  number_format,
  other
};

// All that the program knows about a kind besides the texts of its findings, which its watch writes.
struct FindingKindInfo {
  FindingKind kind;
  const char* name;   // in lists and lessons: "dead experts"
  const char* word;   // for --fail-on and in JSON: "dead"
  Severity severity;  // unless the watch knows that a finding is more or less severe
  FindingSubject subject;
  // For faults of a router: verb phrases for one layer and for several, "Layer 3 has collapsed since step 480", "5 of
  // 58 layers have collapsed". Empty: the title of the finding takes their place. nullptr: not a fault of a router.
  const char* layer_phrase = nullptr;
  const char* layers_phrase = nullptr;
  const char* first_to_mend = nullptr;  // advice if settings of the balance cannot help as long as the finding holds
};
std::span<const FindingKindInfo> finding_kinds();  // in the order of FindingKind
const FindingKindInfo& finding_kind_info(FindingKind kind);

struct Finding {
  FindingKind kind{};
  Severity severity = Severity::note;
  int run = 0;               // RunInfo::run
  std::vector<int> layers;   // worst first; empty: the whole run
  std::vector<int> experts;  // experts of the first layer, worst first
  StepRange steps;           // if ongoing, up to the newest step read
  bool ongoing = true;
  std::optional<OperandPlace> tensor;  // operand of a finding on number formats, in the worst layer
  // For a loss that is NaN or infinite: the operands in which the first such value arose (operands_at()); empty if not
  // known.
  std::vector<OperandElement> operands;
  std::string title;                  // "Layer 1 has collapsed"
  std::string brief;                  // used in sentences with layer and step: "experts 3 and 7 get no token"; of a
                                      // finding on the training a sentence: "The loss diverged at step 800"
  std::string observation, meaning;   // the observation and its meaning, as sentences
  std::vector<Setting> knobs;         // settings that affect it
  std::vector<std::string> settings;  // their names: keys, or as the program that wrote the log calls those it has
};

// Return an ongoing finding with the severity of its kind. The title of a layer's is the name of the layer.
Finding finding_of(FindingKind kind, int run, StepRange steps);
Finding layer_finding(FindingKind kind, int run, int layer, StepRange steps);

// Returns an identifier for muting that does not depend on present numbers.
std::string finding_id(const Finding& finding);

// The load of a MoE layer summed over its newest 50 steps (recent_load.h).
struct LayerLoad {
  int layer = -1;
  bool every_step = true;     // the log has a load for every step
  LoadEvidence evidence;      // all loads of the layer
  float living = 1;           // share of the experts that can be chosen
  std::vector<float> shares;  // [E] in units of the even load of the experts that can be chosen
  bool settles = false;       // uneven since the first steps, but less than before
};

class FindingsScan {
 public:
  static constexpr std::int64_t kBlock = 10;

  explicit FindingsScan(HistoryPtr history);
  ~FindingsScan();

  // Reads the steps up to and including `last_step`. Starts again if the run was rewound. Returns early if `stop` is
  // requested; a later call continues.
  void advance(std::int64_t last_step, std::stop_token stop = {});
  std::vector<Finding> findings() const;  // in the order of sort_findings()
  // Returns conditions of the load that have not lasted long enough for a finding (expert_watch.h, imbalance_watch.h),
  // without texts.
  std::vector<Finding> not_yet() const;
  std::vector<LayerLoad> loads() const;  // layers that have a load
  StepRange read_steps() const;          // steps that were read
  const HistoryPtr& history() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns the findings of a whole history up to a step.
std::vector<Finding> find_all(const HistoryPtr& history, std::int64_t last_step = INT64_MAX);

// True if two findings, such as those of two runs, are about the same from the same step on.
bool says_the_same(const Finding& a, const Finding& b);
// Sorts ongoing findings first, then by severity and kind; of findings that are over, the newest first.
void sort_findings(std::vector<Finding>& findings);

// Checks of a scan.
struct Checks {
  std::vector<std::string> passed;       // sentences: "No expert is dead: ..."
  std::vector<std::string> not_checked;  // with the values that they lack: "oscillation: needs the bias of ..."
};
// Returns the checks of a run. A check passes if its watch had enough loads and tokens, and if `findings` has neither a
// finding of its kind nor one of a stronger kind; with such a finding it is in neither list.
Checks checks_of(const History& history, std::span<const Finding> findings);
// The kinds of findings that these checks cover. A kind is in neither list if it, or a stronger kind, is among the
// findings, or if no run or log of this origin can have it.
struct CheckedKinds {
  std::vector<FindingKind> passed, not_checked;
};
CheckedKinds checked_kinds(const History& history, std::span<const Finding> findings);

std::string steps_read(const History& history);  // steps a scan has read: "steps 0 to 1,234", or "nothing yet"
std::string to_text(std::span<const Finding> findings, std::span<const HistoryPtr> histories);  // text for export

}  // namespace moescope
