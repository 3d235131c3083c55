// golden_router2026 DIR: checks routers and balancers against reference data made by running the code of other
// projects.
//
// DIR holds any of quantile.safetensors, deepseek_v4.safetensors, token_drop.safetensors, eplb.safetensors;
// tests/golden/router2026/README.md describes them and how exact each is. Exits with 0 if all files in DIR agree, 1 if
// something differs, 2 if there is nothing to compare or a file cannot be read.
#include <functional>
#include <set>
#include <stdexcept>
#include <vector>

#include "core/cluster/ranks/placement.h"
#include "core/files/tensors/safetensors.h"
#include "core/model/moe/bias_rules.h"
#include "core/model/moe/router.h"
#include "core/numerics/index.h"
#include "tests/golden/checked_folder.h"
#include "tests/golden/tally.h"

using namespace moescope;

namespace {

// A gate is s times the reciprocal of a sum in the order of ids. This adds one rounding and another order of the sum to
// the 2e-7 between the references.
constexpr double kGates = 3e-7;
// If softplus is subnormal, its last bit changes its root by up to this value.
constexpr double kRootOfSubnormal = 2e-23;

// The tensors NAME.* of one case, as a whole or as parts of their first axes.
class Case {
 public:
  Case(const SafetensorsFile& file, std::string name) : file_(file), name_(std::move(name)) {
    for (const std::int64_t n : file.at(name_ + ".meta").integers()) meta_.push_back(static_cast<int>(n));
  }
  const std::string& name() const { return name_; }
  int meta(std::size_t i) const { return meta_.at(i); }
  std::string named(const char* tensor) const { return name_ + '.' + tensor; }
  bool has(const char* tensor) const { return file_.find(named(tensor)) != nullptr; }
  // Returns part `index` of `parts` equal parts.
  std::vector<float> floats(const std::string& tensor, std::size_t index = 0, std::size_t parts = 1) const {
    const TensorView& view = file_.at(name_ + '.' + tensor);
    const std::size_t count = share(view, index, parts);
    return view.floats(index * count, count);
  }
  std::vector<std::int32_t> integers(const std::string& tensor, std::size_t index = 0, std::size_t parts = 1) const {
    const TensorView& view = file_.at(name_ + '.' + tensor);
    const std::size_t count = share(view, index, parts);
    const std::vector<std::int64_t> all = view.integers();
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(index * count);
    return {first, first + static_cast<std::ptrdiff_t>(count)};
  }

 private:
  std::size_t share(const TensorView& view, std::size_t index, std::size_t parts) const {
    if (view.elements() % parts || index >= parts)
      throw std::runtime_error(file_.path() + ": tensor '" + view.name + "' does not fall into " +
                               std::to_string(parts) + " parts");
    return view.elements() / parts;
  }

  const SafetensorsFile& file_;
  std::string name_;
  std::vector<int> meta_;
};

std::vector<std::string> cases_in(const SafetensorsFile& file) {
  std::vector<std::string> names;
  for (const TensorView& tensor : file.tensors())
    if (tensor.name.ends_with(".meta")) names.push_back(tensor.name.substr(0, tensor.name.size() - 5));
  return names;
}

template <class Got, class Want>
void require_size(const Got& found, const Want& want) {
  if (found.size() != want.size())
    throw std::runtime_error(std::to_string(want.size()) + " values expected, " + std::to_string(found.size()) +
                             " computed");
}

void all_equal(Tally& tally, const std::vector<std::int32_t>& found, const std::vector<std::int32_t>& want) {
  require_size(found, want);
  for (std::size_t i = 0; i < want.size(); ++i) tally.integer(i, found[i], want[i]);
}

void all_same(Tally& tally, const std::vector<float>& found, const std::vector<float>& want) {
  require_size(found, want);
  for (std::size_t i = 0; i < want.size(); ++i) tally.value(i, found[i], want[i]);
}

// Checks |got - want| <= `absolute` + `relative` |want|.
void all_within(Tally& tally, const std::vector<float>& found, const std::vector<float>& want, double absolute,
                double relative) {
  require_size(found, want);
  for (std::size_t i = 0; i < want.size(); ++i)
    tally.within(i, static_cast<double>(found[i]), static_cast<double>(want[i]),
                 absolute + relative * std::fabs(static_cast<double>(want[i])));
}

// Results of a router for given logits.
struct Routed {
  std::vector<std::int32_t> ids, load;
  std::vector<float> scores, gates, cutoff, margin;
};

// Uses the trainer's router with a gate of ones on the diagonal, whose outputs equal its inputs exactly.
Routed route(const RouterConfig& config, const std::vector<float>& logits, const std::vector<float>& bias) {
  const std::size_t experts = bias.size(), tokens = logits.size() / experts;
  std::vector<float> gate(experts * experts);
  for (std::size_t e = 0; e < experts; ++e) gate[e * experts + e] = 1;
  const BatchPart part(1, static_cast<int>(tokens));
  Arena<float> arena;
  RouterActivations<float> a;
  a.plan(arena, part, static_cast<int>(experts), config.top_k);
  arena.commit();
  router_forward<float>(config, part, {{gate.data(), experts, experts}, {logits.data(), tokens, experts}, bias}, a);
  return {a.ids,
          {a.tokens_per_expert.begin(), a.tokens_per_expert.end()},
          {a.scores.data, a.scores.data + a.scores.size()},
          {a.mix.data, a.mix.data + a.mix.size()},
          {a.cutoff.begin(), a.cutoff.end()},
          {a.margin.begin(), a.margin.end()}};
}

// Returns choice and gates for stored scores.
Routed route_scores(const RouterConfig& config, const std::vector<float>& scores, const std::vector<float>& bias) {
  const std::size_t experts = bias.size(), tokens = scores.size() / experts, top_k = size(config.top_k);
  Routed r;
  r.ids.resize(tokens * top_k);
  r.gates.resize(tokens * top_k);
  r.cutoff.resize(tokens);
  r.load.resize(experts);
  std::vector<float> choice(experts);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t e = 0; e < experts; ++e) choice[e] = scores[t * experts + e] + bias[e];
    const auto ids = std::span(r.ids).subspan(t * top_k, top_k);
    r.cutoff[t] = choose_experts<float>(config, choice, ids).cutoff;
    mixing_weights<float>(config, std::span(scores).subspan(t * experts, experts), ids,
                          std::span(r.gates).subspan(t * top_k, top_k));
    for (std::size_t k = 0; k < top_k; ++k) ++r.load[size(r.ids[t * top_k + k])];
  }
  return r;
}

// Quantiles of the global batch ---------------------------------------------------------------------------------------

// Returns the rows of a microbatch that are not padding.
std::vector<float> without_padding(const Case& c, std::size_t microbatch, std::size_t microbatches,
                                   const std::vector<float>& rows, std::size_t width) {
  if (!c.has("padding_mask")) return rows;
  const std::vector<std::int32_t> padding = c.integers("padding_mask", microbatch, microbatches);
  std::vector<float> kept_rows;
  for (std::size_t t = 0; t < padding.size(); ++t)
    if (!padding[t])
      kept_rows.insert(kept_rows.end(), rows.begin() + static_cast<std::ptrdiff_t>(t * width),
                       rows.begin() + static_cast<std::ptrdiff_t>((t + 1) * width));
  return kept_rows;
}

struct GlobalBatchTallies {
  explicit GlobalBatchTallies(const Case& c)
      : ids(c.named("ids")),
        cutoff(c.named("cutoff")),
        gates(c.named("gates")),
        histogram(c.named("histogram")),
        load(c.named("load")),
        bias(c.named("bias")),
        scores(c.named("scores, from logits")),
        from_logits(c.named("ids, from logits")) {}
  Tally ids, cutoff, gates, histogram, load, bias, scores, from_logits;
};

// Compares ids of rows whose last chosen and first rejected value are clearly apart.
void compare_clear_ids(Tally& tally, const Routed& found, const std::vector<std::int32_t>& want, std::size_t top_k) {
  for (std::size_t t = 0; t < found.margin.size(); ++t)
    if (found.margin[t] > 1e-6f)
      for (std::size_t i = t * top_k; i < (t + 1) * top_k; ++i) tally.integer(i, found.ids[i], want[i]);
}

void check_global_batch(const Case& c) {
  const auto experts = size(c.meta(0)), microbatches = size(c.meta(3)), steps = size(c.meta(4));
  RouterConfig config;
  config.top_k = c.meta(1);
  config.balance_rule = BalanceRule::quantile_batch;
  GlobalBatchTallies tally(c);
  for (std::size_t s = 0; s < steps; ++s) {
    const std::vector<float> bias = c.floats("bias", s, steps + 1);
    const auto bins = quantile_bins<float>(bias, c.meta(5));
    std::vector<std::uint32_t> counts(experts * size(bins.count));
    const Matrix<std::uint32_t> table(counts.data(), experts, bins.count);
    std::vector<std::int32_t> load(experts);
    for (std::size_t m = 0; m < microbatches; ++m) {
      const std::size_t at = s * microbatches + m, parts = steps * microbatches;
      const std::vector<float> scores = c.floats("scores", at, parts);
      const Routed routed = route_scores(config, scores, bias);
      all_equal(tally.ids, routed.ids, c.integers("ids", at, parts));
      all_same(tally.cutoff, routed.cutoff, c.floats("cutoff", at, parts));
      all_within(tally.gates, routed.gates, c.floats("gates", at, parts), 0, kGates);
      const std::vector<float> unpadded = without_padding(c, m, microbatches, scores, experts);
      const std::vector<float> cutoff = without_padding(c, m, microbatches, routed.cutoff, 1);
      count_distances<float>(bins, {unpadded.data(), cutoff.size(), experts}, cutoff, table);
      const std::vector<std::int32_t> counted = route_scores(config, unpadded, bias).load;
      for (std::size_t e = 0; e < experts; ++e) load[e] += counted[e];
      const Routed live = route(config, c.floats("logits", at, parts), bias);
      all_within(tally.scores, live.scores, scores, 2e-7, 0);
      compare_clear_ids(tally.from_logits, live, routed.ids, size(config.top_k));
    }
    const std::vector<std::int32_t> histogram = c.integers("histogram", s, steps);
    all_equal(tally.histogram, {counts.begin(), counts.end()}, histogram);
    all_equal(tally.load, load, c.integers("load", s, steps));
    std::vector<float> next = bias;
    const std::vector<std::uint32_t> stored(histogram.begin(), histogram.end());
    bias_from_counts<float>(bins, {stored.data(), experts, bins.count}, config.top_k, next);
    all_within(tally.bias, next, c.floats("bias", s + 1, steps + 1), 2e-6, 0);
  }
}

// Quantiles of microbatches -------------------------------------------------------------------------------------------

// beta is minus our bias.
std::vector<float> negated(std::vector<float> values) {
  for (float& v : values) v = -v;
  return values;
}

struct MicrobatchTallies {
  explicit MicrobatchTallies(const Case& c)
      : ids(c.named("ids")),
        gates(c.named("gates")),
        local(c.named("beta_local")),
        load(c.named("load")),
        beta(c.named("beta")) {}
  Tally ids, gates, local, load, beta;
};

void check_microbatches(const Case& c) {
  const auto experts = size(c.meta(0)), microbatches = size(c.meta(3)), steps = size(c.meta(4));
  const double ema = static_cast<double>(c.floats("ema").at(0));
  RouterConfig config;
  config.top_k = c.meta(1);
  config.balance_rule = BalanceRule::quantile_microbatch;
  config.score_func = c.meta(5) == 0 ? ScoreFunc::softmax : ScoreFunc::sigmoid;
  config.route_norm = c.meta(6) == 0;  // a softmax of the chosen logits equals the normalised softmax of all
  MicrobatchTallies tally(c);
  for (std::size_t s = 0; s < steps; ++s) {
    const std::vector<float> bias = negated(c.floats("beta", s, steps + 1));
    std::vector<float> sum(experts);
    std::vector<std::int32_t> load(experts);
    for (std::size_t m = 0; m < microbatches; ++m) {
      const std::size_t at = s * microbatches + m, parts = steps * microbatches;
      const std::vector<float> logits = c.floats("logits", at, parts);
      const Routed routed = route(config, logits, bias);
      all_equal(tally.ids, routed.ids, c.integers("ids", at, parts));
      all_within(tally.gates, routed.gates, c.floats("gates", at, parts), 0, 1e-6);
      std::vector<float> local(experts);
      bias_of_microbatch<float>({logits.data(), routed.cutoff.size(), experts}, routed.cutoff, config.top_k, local);
      all_same(tally.local, negated(local), c.floats("beta_local", at, parts));
      for (std::size_t e = 0; e < experts; ++e) sum[e] += local[e] / static_cast<float>(microbatches);
      for (std::size_t e = 0; e < experts; ++e) load[e] += routed.load[e];
    }
    all_equal(tally.load, load, c.integers("load", s, steps));
    std::vector<float> next = bias;
    follow_bias<float>(sum, ema, next);
    all_within(tally.beta, negated(next), c.floats("beta", s + 1, steps + 1), 2e-6, 0);
  }
}

// The sign rule -------------------------------------------------------------------------------------------------------

void check_sign(const Case& c) {
  const auto steps = size(c.meta(3));
  const double rate = static_cast<double>(c.floats("u").at(0));
  RouterConfig config;
  config.top_k = c.meta(1);
  config.route_scale = 2.5;
  Tally ids(c.named("ids")), gates(c.named("gates")), load(c.named("load")), biases(c.named("bias"));
  for (std::size_t s = 0; s < steps; ++s) {
    std::vector<float> bias = c.floats("bias", s, steps + 1);
    const Routed routed = route(config, c.floats("logits", s, steps), bias);
    all_equal(ids, routed.ids, c.integers("ids", s, steps));
    all_within(gates, routed.gates, c.floats("gates", s, steps), 0, 1e-6);
    const std::vector<std::int32_t> counts = c.integers("load", s, steps);
    all_equal(load, routed.load, counts);
    const std::vector<std::uint32_t> tokens(counts.begin(), counts.end());
    move_expert_bias<float>(bias, bias_directions(tokens), rate, false);
    all_same(biases, bias, c.floats("bias", s + 1, steps + 1));
  }
}

// DeepSeek-V4 ---------------------------------------------------------------------------------------------------------

// Checks the gates of the experts that a table gives each token, in the table's order.
void check_table(const Case& c, const RouterConfig& config, const std::string& table) {
  const std::vector<float> scores = c.floats("scores");
  const std::vector<std::int32_t> tokens = c.integers("token_ids"), rows = c.integers("hash." + table + ".table");
  const std::size_t experts = size(c.meta(2)), top_k = size(config.top_k);
  std::vector<std::int32_t> ids;
  ExpertTable(rows, config.top_k).look_up(tokens, ids);
  std::vector<float> gates(tokens.size() * top_k);
  for (std::size_t t = 0; t < tokens.size(); ++t)
    mixing_weights<float>(config, std::span(scores).subspan(t * experts, experts),
                          std::span(ids).subspan(t * top_k, top_k), std::span(gates).subspan(t * top_k, top_k));
  Tally id_tally(c.named("hash.") + table + ".ids"), gate_tally(c.named("hash.") + table + ".gates");
  all_equal(id_tally, ids, c.integers("hash." + table + ".ids"));
  all_within(gate_tally, gates, c.floats("hash." + table + ".gates"), 1e-37, 5e-6);
}

void check_deepseek_v4(const Case& c) {
  RouterConfig config;
  config.top_k = c.meta(3);
  config.score_func = ScoreFunc::sqrtsoftplus;
  config.route_scale = static_cast<double>(c.floats("route_scale").at(0));
  const Routed routed = route(config, c.floats("logits"), c.floats("bias"));
  {
    Tally ids(c.named("ids")), scores(c.named("scores")), gates(c.named("gates")), margin(c.named("margin"));
    all_equal(ids, routed.ids, c.integers("ids"));
    all_within(scores, routed.scores, c.floats("scores"), kRootOfSubnormal, 5e-7);
    all_within(gates, routed.gates, c.floats("gates"), 1e-37, 5e-6);
    all_within(margin, routed.margin, c.floats("margin"), 0, 1e-4);
  }
  for (const char* table : {"roundrobin", "random"}) check_table(c, config, table);
}

// Dropping ------------------------------------------------------------------------------------------------------------

// Turns dense rows [T, E] with K chosen in each into lists [T, K].
std::vector<std::int32_t> chosen_in(const std::vector<std::int32_t>& map, std::size_t experts) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < map.size(); ++i)
    if (map[i]) ids.push_back(static_cast<std::int32_t>(i % experts));
  return ids;
}

void check_drop(const Case& c) {
  const auto tokens = size(c.meta(0)), experts = size(c.meta(1)), top_k = size(c.meta(2));
  const double factor = static_cast<double>(c.floats("capacity_factor").at(0));
  const std::vector<float> probs = c.floats("probs");
  const std::vector<std::int32_t> ids = chosen_in(c.integers("map"), experts);
  if (ids.size() != tokens * top_k) throw std::runtime_error(c.named("map") + " does not choose K experts each");
  const int capacity = expert_capacity(tokens, c.meta(2), c.meta(1), factor);
  std::vector<float> gates(ids.size()), dense(tokens * experts);
  const auto place = [&](std::size_t i) { return i / top_k * experts + size(ids[i]); };
  for (std::size_t i = 0; i < ids.size(); ++i) gates[i] = probs[place(i)];
  std::vector<std::int32_t> kept_ids = ids;
  drop_beyond_capacity<float>(TokenDrop::probs, c.meta(1), capacity, {kept_ids.data(), tokens, top_k},
                              {gates.data(), tokens, top_k});
  std::vector<std::int32_t> map(tokens * experts);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    dense[place(i)] = gates[i];
    map[place(i)] = kept_ids[i] >= 0;
  }
  Tally rows(c.named("capacity")), drop(c.named("drop.probs")), maps(c.named("drop.map")), padded(c.named("pad.probs"));
  rows.integer(0, capacity, c.meta(3));
  all_same(drop, dense, c.floats("drop.probs"));
  all_equal(maps, map, c.integers("drop.map"));
  all_same(padded, dense, c.floats("pad.probs"));
  Tally filled(c.named("pad.rows_per_expert"));
  all_equal(filled, std::vector<std::int32_t>(experts, std::min(capacity, c.meta(0))),
            c.integers("pad.rows_per_expert"));
}

// EPLB ----------------------------------------------------------------------------------------------------------------

// Returns the slots that hold each expert; the reference lists them in unspecified order, padded with -1.
std::vector<std::multiset<std::int32_t>> slots_by_expert(const std::vector<std::int32_t>& log2phy,
                                                         std::size_t experts) {
  std::vector<std::multiset<std::int32_t>> slots(experts);
  const std::size_t slots_per_expert = log2phy.size() / experts;
  for (std::size_t i = 0; i < log2phy.size(); ++i)
    if (log2phy[i] >= 0) slots[i / slots_per_expert].insert(log2phy[i]);
  return slots;
}

void check_eplb(const Case& c) {
  const auto layers = size(c.meta(0)), experts = size(c.meta(1));
  Tally slots(c.named("phy2log")), copies(c.named("logcnt")), places(c.named("log2phy"));
  for (std::size_t l = 0; l < layers; ++l) {
    const auto expert_of_slot =
        rebalance_experts(c.floats("weight", l, layers), {c.meta(2), c.meta(3), c.meta(4), c.meta(5)});
    all_equal(slots, expert_of_slot, c.integers("phy2log", l, layers));
    std::vector<std::int32_t> count(experts);
    std::vector<std::multiset<std::int32_t>> held(experts);
    for (std::size_t s = 0; s < expert_of_slot.size(); ++s) {
      ++count[size(expert_of_slot[s])];
      held[size(expert_of_slot[s])].insert(static_cast<std::int32_t>(s));
    }
    all_equal(copies, count, c.integers("logcnt", l, layers));
    const auto want = slots_by_expert(c.integers("log2phy", l, layers), experts);
    for (std::size_t e = 0; e < experts; ++e) places.integer(e, held[e] == want[e], 1);
  }
}

// ---------------------------------------------------------------------------------------------------------------------

void check_quantile(const Case& c) {
  if (c.name().starts_with("k3_"))
    check_global_batch(c);
  else if (c.name().starts_with("micro_"))
    check_microbatches(c);
  else
    check_sign(c);
}

std::function<void(const SafetensorsFile&)> for_cases(void (*check)(const Case&)) {
  return [check](const SafetensorsFile& file) {
    for (const std::string& name : cases_in(file)) check(Case(file, name));
  };
}

}  // namespace

int main(int argc, char** argv) {
  return check_folder("golden_router2026", argc, argv,
                      {{"quantile", for_cases(check_quantile)},
                       {"deepseek_v4", for_cases(check_deepseek_v4)},
                       {"token_drop", for_cases(check_drop)},
                       {"eplb", for_cases(check_eplb)}});
}
