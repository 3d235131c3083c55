// Explanations of figures from the arrays of a layer.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/files/text/words.h"
#include "core/findings/explain/explain_parts.h"
#include "core/frame/model_scans.h"
#include "core/frame/router_stats.h"
#include "core/frame/specialisation.h"

namespace moescope::explaining {
namespace {

Parts utilisation(Context& at) {
  const auto& counts = at.router->tokens_per_expert;
  const std::size_t expert = at.target.expert;
  const double slots = total(counts);
  at.value = counts[expert] * static_cast<double>(counts.size()) / slots;
  if (are_shares(at.info(), *at.router))
    return {num(counts[expert] / slots) + " * " + num(counts.size()), "share of the expert, experts E"};
  std::string note = "copies of the expert n_e, experts E, all copies T K";
  const int top_k = at.info().top_k;
  if (top_k > 0 && top_k < std::ssize(counts)) {
    const auto tokens = static_cast<std::int64_t>(slots) / top_k;
    const double spread = utilisation_noise(tokens, top_k, to_int(counts.size()));
    if (std::isfinite(spread))
      note += "; in a batch of " + counted(tokens, "token", "tokens") + " chance alone keeps most experts between " +
              decimal(std::max(0.0, 1 - 2 * spread), 2) + " and " + decimal(1 + 2 * spread, 2);
  }
  return {num(counts[expert]) + " * " + num(counts.size()) + " / " + num(slots), note};
}

Parts expert_bias(Context& at) {
  const std::size_t expert = at.target.expert;
  at.value = at.router->expert_bias[expert];
  const auto before = at.history.frame_at(at.step - 1);
  if (!before || before->step != at.step - 1)
    return plain(at, "added to the scores for the choice of experts, but not to the mixing weights");
  for (const RouterFrame& router : before->routers) {
    if (router.layer != at.target.layer || router.expert_bias.size() <= expert) continue;
    const double old_bias = router.expert_bias[expert];
    const auto& counts = at.router->tokens_per_expert;
    std::string note = "the bias one step earlier, and this step's change";
    if (by_quantiles(at.setting(&RouterConfig::balance_rule).value_or(BalanceRule::sign))) {
      note += ": to the value at which the expert would have got its share of this batch";
    } else if (expert < counts.size() && !are_shares(at.info(), *at.router)) {
      const double mean = total(counts) / static_cast<double>(counts.size());
      note += ": n_e = " + num(counts[expert]) + " against n = " + num(mean);
    }
    const double change = at.value - old_bias;
    return {num(old_bias) + (change < 0 ? " - " : " + ") + num(std::fabs(change)), note};
  }
  return plain(at);
}

Parts mass(Context& at, const std::vector<float>& shares, const char* what) {
  at.value = shares[at.target.expert];
  const double experts = shares.size();
  return {num(at.value * experts) + " / " + num(experts),
          std::string(what) + ", as a multiple of the fair share 1 / E"};
}

Parts copies(Context& at, const std::vector<std::uint32_t>& matrix, const char* what) {
  at.value = total(matrix);
  if (at.tokens() <= 0) return plain(at, what);
  return {num(at.tokens()) + " * " + num(at.value / at.tokens()), std::string("tokens of the batch times ") + what};
}

// Explains totals of one layer's dispatch, standard or de-duplicated.
std::optional<Parts> dispatch(Context& at) {
  const VolumeFrame& volume = at.router->volume;
  const auto cells = volume.ranks * static_cast<std::size_t>(volume.ranks);
  if (cells == 0 || volume.copies_RR.size() != cells || volume.distinct_RR.size() != cells) return std::nullopt;
  const bool lean = at.target.other == 1;
  const DispatchTotals totals = dispatch_totals(volume, lean);
  const double bytes = std::isfinite(at.target.parameter) ? at.target.parameter : 2.0 * at.info().dim;
  const FigureKey key = at.target.key;
  const std::string kind = lean ? "one for each destination rank" : "one for each chosen expert";
  if (key == "dispatch_overload") {
    at.value = totals.max_over_mean;
    if (totals.received <= 0) return std::nullopt;
    return Parts{fmt::format("{} * {} / {}", num(totals.fullest), volume.ranks, num(totals.received)),
                 "copies (" + kind + ") that reach the fullest rank, ranks R, copies that reach all ranks"};
  }
  if (key == "saved_by_deepep") {
    at.value = saved_by_deepep(volume);
    if (is_missing(static_cast<float>(at.value))) return std::nullopt;
    return Parts{"1 - " + num(dispatch_totals(volume, true).across_nodes) + " / " +
                     num(dispatch_totals(volume, false).across_nodes),
                 "copies over the network, one for each destination node, and one for each chosen expert"};
  }
  const double copies = key == "bytes_moved" ? totals.moved : totals.across_nodes;
  at.value = copies * bytes;
  return Parts{num(copies) + " * " + num(bytes),
               std::string(key == "bytes_moved" ? "copies that leave their rank" : "copies to another node") + " (" +
                   (lean && key == "bytes_across_nodes" ? "one for each destination node" : kind) +
                   "), bytes of a token's row"};
}

}  // namespace

// Explains padding at another alignment, or dropped copies or filler rows at another capacity factor, from the load.
std::optional<Parts> what_if(Context& at) {
  const bool padding = at.target.key == "padding_fraction";
  const double parameter = at.target.parameter;
  const bool filler = at.target.key == "filler_fraction";
  const auto value = [&](const RouterFrame& router) {
    const auto& counts = router.tokens_per_expert;
    if (padding) return static_cast<double>(padding_fraction(counts, static_cast<std::uint32_t>(parameter)));
    return static_cast<double>(filler ? filler_fraction(counts, parameter) : dropped_fraction(counts, parameter));
  };
  if (!at.frame) return std::nullopt;
  at.step = at.frame->step;
  if (at.target.layer == kWholeRun) {
    std::vector<double> values;
    for (const RouterFrame& router : at.frame->routers)
      if (const double layer_value = value(router); std::isfinite(layer_value)) values.push_back(layer_value);
    return mean_of_layers(at, values,
                          listed(at.info().moe_layers) +
                              (padding ? ", padded to a multiple of " : ", at capacity factor ") + num(parameter));
  }
  if (!at.router) return std::nullopt;
  if (padding && are_shares(at.info(), *at.router)) return std::nullopt;
  at.value = value(*at.router);
  const auto& counts = at.router->tokens_per_expert;
  const double slots = total(counts);
  if (!std::isfinite(at.value) || slots <= 0) return std::nullopt;
  if (padding) return padded_to(counts, parameter);
  const double room = std::ceil(parameter * slots / counts.size());
  return Parts{num(std::round(at.value * slots)) + " / " + num(slots),
               std::string(filler ? "filler rows up to" : "copies beyond") + " the capacity of " + num(room) +
                   " an expert, ceil(c T K / E) with c = " + num(parameter) + "; all copies"};
}

namespace {

// Explains a cell's share of its row, divided by its column's share of the whole table.
std::optional<Parts> lift(Context& at, const std::vector<std::uint32_t>& table, std::size_t columns, std::size_t row,
                          std::size_t column, const std::string& note) {
  const Margins sums(table, columns);
  const double cell_value = table[row * columns + column];
  const double row_sum = sums.rows[row], column_sum = sums.columns[column], all = sums.total;
  if (row_sum <= 0 || column_sum <= 0) return std::nullopt;
  at.value = cell_value / row_sum / (column_sum / all);
  return Parts{"(" + num(cell_value) + " / " + num(row_sum) + ") / (" + num(column_sum) + " / " + num(all) + ")", note};
}

std::optional<Parts> specialisation(Context& at) {
  const auto frame = at.history.specialisation_layer_at(at.target.layer, at.target.step);
  const std::size_t experts = at.info().n_experts;
  const std::size_t expert = std::max(0, at.target.expert);
  const std::size_t other = std::max(0, at.target.other);
  if (!frame || expert >= experts) return std::nullopt;
  at.step = frame->step;
  for (const SpecialisationFrame& special : frame->specialisation) {
    if (special.layer != at.target.layer) continue;
    const FigureKey key = at.target.key;
    if ((key == "domain_share" || key == "domain_lift") && (other + 1) * experts <= special.domain_DE.size()) {
      const std::string domain =
          other < at.info().domains.size() ? at.info().domains[other] : fmt::format("domain {}", other);
      if (key == "domain_lift") {
        return lift(at, special.domain_DE, experts, other, expert,
                    "share of the expert in " + domain + ", over its share in all text");
      }
      const double slots = special.domain_DE[other * experts + expert];
      const double all = Margins(special.domain_DE, experts).rows[other];
      if (all <= 0) return std::nullopt;
      at.value = slots / all;
      return Parts{num(slots) + " / " + num(all),
                   "copies of the expert from " + domain + ", of all copies from " + domain};
    }
    if (key == "coactivation" && special.together_EE.size() == experts * experts && other < experts) {
      const double chosen_tokens = special.together_EE[expert * experts + expert];
      if (chosen_tokens <= 0) return std::nullopt;
      const double both = special.together_EE[expert * experts + other];
      at.value = both / chosen_tokens;
      return Parts{num(both) + " / " + num(chosen_tokens),
                   fmt::format("tokens that chose experts {} and {}, of the tokens that chose expert {}", expert, other,
                               expert)};
    }
    if (key == "bias_for_share" && special.bias_for_share_EQ.size() == experts * kBiasShares) {
      at.value = special.bias_for_share_EQ[expert * kBiasShares + kFairShare];
      return plain(at, "the K/E quantile, over the tokens of the step, of cutoff minus score");
    }
    if (key == "byte_affinity" && special.byte_256E.size() == 256 * experts && other < 256) {
      // P(b | e) / P(b) equals P(e | b) / P(e).
      return lift(at, special.byte_256E, experts, other, expert,
                  fmt::format("share of the expert among the copies of byte {}, over its share of all copies", other));
    }
  }
  return std::nullopt;
}

// Explains the newest measurement at or before the step; if there is none, the first measurement of the run.
std::optional<Parts> output_similarity(Context& at) {
  const auto markers = at.history.markers();
  const Marker* shown = nullptr;
  for (const Marker& marker : markers) {
    if (marker.kind != kSimilarityMarker) continue;
    const bool late = shown && shown->step > at.target.step;
    if (!shown || (late ? marker.step < shown->step : marker.step >= shown->step && marker.step <= at.target.step))
      shown = &marker;
  }
  const auto measured = shown ? similarity_in(shown->text) : std::nullopt;
  if (shown) at.step = shown->step;
  const LayerSimilarity* layer = measured ? measured->find(at.target.layer) : nullptr;
  const int i = at.target.expert, j = at.target.other;
  if (!layer || i < 0 || j < 0 || i >= layer->experts() || j >= layer->experts() || i == j) return std::nullopt;
  at.value = layer->cosine(i, j).mean;
  std::string note =
      fmt::format("mean over {} of text, experts {} and {}", counted(measured->pieces, "piece", "pieces"), i, j);
  if (std::isfinite(layer->cosine(i, j).interval)) note += "; 95 % interval +-" + num(layer->cosine(i, j).interval);
  return plain(at, note);
}

// Explains the value of one layer, or the mean over the layers that can be compared.
std::optional<Parts> stability(Context& at) {
  std::int64_t step = at.target.step;
  const auto newer = at.history.text_at(TextKind::probe, step);
  if (!newer) return std::nullopt;
  std::int64_t reference = at.target.reference >= 0 ? at.target.reference : step - 1;
  const auto older = at.history.text_at(TextKind::probe, reference);
  if (!older) return std::nullopt;
  at.step = step;
  const bool sets = at.target.key == "unchanged_choices";
  const auto value = [&](int layer) {
    return static_cast<double>(sets ? unchanged_choices(*newer, *older, layer)
                                    : routing_stability(*newer, *older, layer));
  };
  if (at.target.layer == kWholeRun) {
    std::vector<double> values;
    for (const TokenLayer& layer : newer->layers)
      if (const double layer_value = value(layer.layer); std::isfinite(layer_value)) values.push_back(layer_value);
    return mean_of_layers(at, values, "against step " + grouped(reference));
  }
  at.value = value(at.target.layer);
  const double all_copies = static_cast<double>(newer->text.size()) * (sets ? 1 : at.info().top_k);
  if (!std::isfinite(at.value) || all_copies <= 0) return std::nullopt;
  return Parts{num(std::round(at.value * all_copies)) + " / " + num(all_copies),
               (sets ? "tokens of the probe with the same experts as at step "
                     : "chosen experts of the probe's tokens that were also chosen at step ") +
                   grouped(reference) + ", of all"};
}

std::optional<Parts> histogram(Context& at) {
  const RouterFrame& router = *at.router;
  if (at.target.key == "margin_histogram") {
    if (router.margin_tokens.empty()) return std::nullopt;
    at.value = total(router.margin_tokens);
    return plain(at, "tokens in all bins");
  }
  if (router.score_chosen.empty()) return std::nullopt;
  const double chosen = total(router.score_chosen);
  const double rejected = total(router.score_rejected);
  at.value = chosen + rejected;
  return Parts{num(chosen) + " + " + num(rejected), "scores of chosen experts, T K, and of all others"};
}

}  // namespace

std::optional<Parts> array_parts(Context& at) {
  const FigureKey key = at.target.key;
  if (key == "margin_tokens" || key == "margin_flipped") {
    const auto frame = at.history.flip_frame_at(at.target.step);
    if (!frame) return std::nullopt;
    std::vector<double> values;
    for (const FlipFrame& flip : frame->flips) {
      if (at.target.layer != kWholeRun && flip.layer != at.target.layer) continue;
      const HalfOctaves& bins = key == "margin_tokens" ? flip.margin_tokens : flip.margin_flipped;
      values.push_back(std::accumulate(bins.begin(), bins.end(), std::uint64_t{0}));
    }
    if (values.empty()) return std::nullopt;
    at.step = frame->step;
    at.value = std::accumulate(values.begin(), values.end(), 0.0);
    return Parts{sum_text(values), "tokens in all bins, by layer"};
  }
  if (key == "output_similarity") return output_similarity(at);
  if (key == "routing_stability" || key == "unchanged_choices") return stability(at);
  if (key == "domain_share" || key == "domain_lift" || key == "coactivation" || key == "byte_affinity" ||
      key == "bias_for_share")
    return specialisation(at);
  if (!at.router) return std::nullopt;
  if (key == "score_histogram" || key == "margin_histogram") return histogram(at);
  const std::size_t expert = std::max(0, at.target.expert);
  const RouterFrame& router = *at.router;
  if (key == "utilisation" && expert < router.tokens_per_expert.size() && total(router.tokens_per_expert) > 0)
    return utilisation(at);
  if (key == "expert_bias" && expert < router.expert_bias.size()) return expert_bias(at);
  if (key == "score_mass" && expert < router.score_mass.size())
    return mass(at, router.score_mass, "share of the scores");
  if (key == "gate_mass" && expert < router.gate_mass.size())
    return mass(at, router.gate_mass, "share of the mixing weights");
  if (key == "bytes_moved" || key == "bytes_across_nodes" || key == "dispatch_overload" || key == "saved_by_deepep")
    return dispatch(at);
  const VolumeFrame& volume = router.volume;
  if (key == "copies" && !volume.copies_RR.empty()) return copies(at, volume.copies_RR, "experts per token, K");
  if (key == "distinct" && !volume.distinct_RR.empty())
    return copies(at, volume.distinct_RR, "ranks that a token goes to on average");
  if (key == "nodes" && !volume.nodes_RN.empty())
    return copies(at, volume.nodes_RN, "nodes that a token goes to on average");
  return std::nullopt;
}

}  // namespace moescope::explaining
