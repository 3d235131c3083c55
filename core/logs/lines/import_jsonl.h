// Training logs as JSON lines: the program's own form, and logs of other programs as they are.
//
// One object a line. A line without `step`, before the first step, describes the run:
//   run | name, layers, moe_layers, dense_layers, experts, top_k, seq and batch (or tokens_per_step), dim, domains,
//   ranks, ranks_per_node, window, aux_coeff; common other names (num_hidden_layers, ...) are understood, all others
//   kept as the run's settings.
// Every other line is a step, or a part of one (L MoE layers, E experts, R ranks; what is absent stays absent):
//   step                              required
//   ce_loss, val_loss, aux_loss, z_loss, grad_norm, lr, tokens_per_s, max_logit, wall_s, tokens, phase_ms
// All of these, and tokens_per_expert and expert_bias, may have any name that the table of names knows (tag_map.h):
// "train/loss", "global_step", "moe/layer_3/tokens_per_expert". Counts may be floats that are whole.
// and its routers in one of three forms:
//   layer, tokens_per_expert [E], ... one layer a line; lines of one step follow each other. Further keys are those of
//                                     RouterFrame: expert_bias, score_mass, gate_mass [E], margin, score_entropy,
//                                     aux_loss, z_loss, ..., volume {ranks, ranks_per_node, copies [R][R], ...}
//   routers [{layer, ...}, ...]       all layers of the step, with the same keys: as `--jsonl` writes (jsonl.h)
//   tokens_per_expert [L][E]          as training scripts write it, with expert_bias [L][E], score_entropy (nats),
//                                     margin, aux [L] (without its coefficient: with the settings' aux_coeff it
//                                     becomes aux_loss), domain_expert {domain: [E]} and domain_expert_layer. MoE
//                                     layers are the last L of `layers`.
// quants, flips, gradients, specialisation, texts and wire are those of jsonl.h, markers [{step, kind, text, key,
// value}] those of export_jsonl.h: changes, notes ("note") and events, with either of the last two forms. Several runs
// in one file have numbers: `run`. MaxVio, CV, entropy, padding and windows are computed from the counts where a line
// does not give them. NaN and Infinity, as Python writes them, are values. A line that cannot be read is counted, its
// number and the reason kept, and skipped. A line after the first step that has neither a step nor a figure of one, as
// {"end": true}, is a remark of the script and passed over, and so are the totals that Hugging Face's Trainer writes at
// its end ("train_runtime"). Further lines of a step join it; a step that comes again is a restart (restart_rule.h).
#pragma once

#include <string>
#include <string_view>

#include "core/logs/lines/log_reader.h"

namespace moescope {

// Splits chunks of a file into lines; lines longer than kLongestLine are counted as bad.
class LineSplitter {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{64} << 20;
  void add(std::string_view chunk, LogReader& reader);
  void finish(LogReader& reader);  // a last line without a newline
  bool holds_part() const { return !part_.empty() || too_long_; }

 private:
  void add_part(std::string_view piece);
  std::string part_;
  bool too_long_ = false;
};

// Throws std::runtime_error: the file cannot be read, or holds no step (then with what was wrong with the first line).
Imported import_jsonl(const std::string& path, const ImportOptions& options = {});

}  // namespace moescope
