// Training logs as JSON lines: the program's own form, and unchanged logs of other programs.
//
// One object per line. A line without `step` before the first step describes the run:
//   run | name, layers, moe_layers, dense_layers, experts, top_k, seq and batch (or tokens_per_step), dim, domains,
//   ranks, ranks_per_node, window, aux_coeff, or other common names of these (num_hidden_layers, ...). All further
//   names are kept as the run's settings.
// Every other line is a step or a part of one (L MoE layers, E experts, R ranks; absent values stay missing):
//   step                              required
//   ce_loss, val_loss, aux_loss, z_loss, grad_norm, lr, tokens_per_s, max_logit, wall_s, tokens, phase_ms
// These figures, tokens_per_expert and expert_bias may have any name that the table of names has (tag_map.h):
// "train/loss", "global_step", "moe/layer_3/tokens_per_expert". Counts may be whole floats. The routers of a step have
// one of three forms:
//   layer, tokens_per_expert [E], ... one layer per line; the lines of a step follow each other. Further keys are those
//                                     of RouterFrame: expert_bias, score_mass, gate_mass [E], margin, score_entropy,
//                                     aux_loss, z_loss, ..., volume {ranks, ranks_per_node, copies [R][R], ...}
//   routers [{layer, ...}, ...]       all layers of the step with these keys, as `--jsonl` writes them (jsonl.h)
//   tokens_per_expert [L][E]          all layers of the step, as training scripts write them, with expert_bias [L][E],
//                                     score_entropy (nats), margin, aux [L] (the settings' aux_coeff times aux is
//                                     aux_loss), domain_expert {domain: [E]} and domain_expert_layer. The MoE layers
//                                     are the last L of `layers`.
// jsonl.h describes quants, flips, gradients, specialisation, texts and wire. export_jsonl.h describes markers [{step,
// kind, text, key, value}], which are changes, notes ("note") and events; lines of the last two forms may have them.
// `run` numbers the runs if a file has several. MaxVio, CV, entropy, padding and windows are computed from the counts
// if a line does not have them. NaN and Infinity, as Python writes them, are values.
//
// Further lines of a step are joined to it; a repeated step is a restart (restart_rule.h). A line may have the name and
// the value of one figure. If a line has "val" or "eval" under split, phase, mode, ..., its loss is that
// of a validation and its other values are not read; if it has "test" there, none of its values are read. A line that
// cannot be read is skipped and counted with its number and the reason. If only the loads of a line cannot be read, it
// is counted, too, but its figures are read. After the first step, a line without a step and without figures, such as
// {"end": true}, is skipped, and so are the totals that Hugging Face's Trainer writes at its end ("train_runtime").
#pragma once

#include <string>
#include <string_view>

#include "core/logs/lines/log_reader.h"

namespace moescope {

// Splits chunks of a file into lines. Lines longer than kLongestLine are counted as bad.
class LineSplitter {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{64} << 20;
  void add(std::string_view chunk, LogReader& reader);
  void finish(LogReader& reader);  // passes the last line, which has no newline, to `reader`
  // Passes the last line to `reader`, although it may go on. If it does, the whole line is passed again.
  void read_part(LogReader& reader);
  bool holds_part() const { return !part_.empty() || too_long_; }
  bool holds_unread_part() const { return holds_part() && !part_is_read_; }
  const std::string& part() const { return part_; }

 private:
  void add_part(std::string_view piece);
  std::string part_;
  bool too_long_ = false, part_is_read_ = false;
};

// Throws std::runtime_error if the file cannot be read, has no step (then with the error of the first bad line), or is
// refused (LogReader::finish()).
Imported import_jsonl(const std::string& path, const ImportOptions& options = {});

}  // namespace moescope
