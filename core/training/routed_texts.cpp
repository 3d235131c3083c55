#include "core/training/routed_texts.h"

#include <algorithm>
#include <utility>

#include "core/checkpoints/routed_passage.h"
#include "core/files/text/text_escape.h"
#include "core/numerics/elementary.h"
#include "core/numerics/rng.h"
#include "core/numerics/threads.h"
#include "core/training/trainer.h"

namespace moescope {
namespace {

constexpr std::size_t kPromptBytes = 24;
constexpr std::size_t kTextBytes = 4096;  // limit of a shown probe or sample

using Ids = std::vector<std::int32_t>;

Ids ids_of(const Tokenizer* tokenizer, std::string_view text) {
  if (tokenizer) return tokenizer->encode(text, SpecialTokenUse::without);
  Ids ids;
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

// Returns the first words of the text, at most kPromptBytes, so that a sample does not begin within a word.
std::string_view first_words(std::string_view text) {
  if (text.size() <= kPromptBytes) return text;
  const std::size_t end = text.find_last_of(" \n", kPromptBytes);
  return text.substr(0, end == 0 || end == text.npos ? kPromptBytes : end);
}

// Returns -ln p of the token `id` under softmax(logits).
float loss_of(std::span<const float> logits, std::int32_t id) {
  const float top = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += ordered_exp(static_cast<double>(logit) - top);
  return static_cast<float>(ordered_log(sum) + top - logits[size(id)]);
}

// Returns the token at which the cumulative distribution of softmax(logits / temperature) exceeds `u`, in [0, 1).
std::int32_t draw(std::span<const float> logits, double temperature, double u) {
  const auto best = std::ranges::max_element(logits);
  if (temperature == 0) return to_int(best - logits.begin());
  std::vector<double> sums;
  double sum = 0;
  for (const float logit : logits)
    sums.push_back(sum += ordered_exp((static_cast<double>(logit) - *best) / temperature));
  const auto at = std::ranges::upper_bound(sums, u * sum);
  return to_int(std::min<std::ptrdiff_t>(at - sums.begin(), std::ssize(logits) - 1));
}

// Returns the routing of tokens [first, first + count) of a model's last pass.
RoutedTokens routed_tokens(const Transformer<float>& model, const RouterActivations<float>& router, std::size_t first,
                           std::size_t count) {
  RoutedTokens out;
  out.experts = model.config().model.n_experts;
  out.top_k = model.top_k();
  const auto rows = [&](const Matrix<const float>& all) {
    return std::vector<float>(all.row(first), all.row(first + count));
  };
  out.logits = rows(router.judged(model.config().router));  // those that decide the choice
  out.scores = rows(router.scores);
  const auto margins = router.margin.subspan(first, count);
  out.margin.assign(margins.begin(), margins.end());
  const auto ids = router.ids.begin() + static_cast<std::ptrdiff_t>(first) * out.top_k;
  out.ids.assign(ids, ids + static_cast<std::ptrdiff_t>(count) * out.top_k);
  return out;
}

// Adds losses and routing of the model's last pass to the passage. ids[t] is token first + t of that pass, whose
// sequences have `length` tokens.
void add_routing(RoutedPassage& passage, const Learner<float>& learner, const Transformer<float>& model,
                 std::span<const std::int32_t> ids, std::size_t first, std::size_t length) {
  for (std::size_t t = 0; t < passage.tokens(); ++t)
    if (t % length != 0) passage.set_loss(t, loss_of(model.logits().values(first + t - 1), ids[t]));
  const bool by_scores = !by_quantiles(learner.config.router.balance_rule);
  for (std::size_t i = 0; i < model.moe().size(); ++i)
    passage.add_layer(learner.config.model.n_dense_layers + to_int(i),
                      routed_tokens(model, model.moe()[i].router, first, passage.tokens()), learner.expert_bias[i],
                      !by_scores);
}

std::size_t count_of_domains(const Batch& batch) {
  if (batch.domain_names) return batch.domain_names->size();
  return static_cast<std::size_t>(*std::ranges::max_element(batch.domain)) + 1;
}

// Returns a sequence of the domain whose turn it is, or of the next domain that has a sequence on this rank.
int sequence_in_turn(const Batch& batch, const BatchPart& part, std::int64_t turn) {
  const auto domains = static_cast<std::ptrdiff_t>(count_of_domains(batch));
  const auto distance = [&](std::int32_t domain) { return (domain - turn % domains + domains) % domains; };
  const auto first = batch.domain.begin() + part.first_sequence;
  return to_int(std::ranges::min_element(first, first + part.sequences, {}, distance) - batch.domain.begin());
}

// Returns loss and routing of the first tokens (of at most 256 bytes) of one sequence of the batch, from the learner's
// last forward pass. This rank must have that sequence.
TokenFrame batch_passage(const Learner<float>& learner, const Batch& batch, int sequence) {
  const std::size_t first = size(sequence) * size(batch.length);
  const std::span<const std::int32_t> ids(batch.input.data() + first, std::min(kPassageBytes, size(batch.length)));
  RoutedPassage passage(batch.tokenizer, ids, TextKind::batch);
  add_routing(passage, learner, learner.model(), ids, first - learner.model().part().first_token(), size(batch.length));
  if (batch.domain_names && batch.token_domain.empty())
    passage.set_domain((*batch.domain_names)[size(batch.domain[size(sequence)])]);
  return passage.take();
}

// Adds the tokens on this rank to the counts of a layer. `ids_TK`: experts of these tokens.
void add_layer(const Batch& batch, const BatchPart& part, const std::vector<std::int32_t>& ids_TK, std::size_t top_k,
               SpecialisationFrame& counts) {
  const std::size_t experts = counts.n_experts();
  for (std::size_t part_token = 0; part_token < part.tokens(); ++part_token) {
    const std::size_t t = part.first_token() + part_token;
    const std::int32_t* ids = ids_TK.data() + part_token * top_k;
    std::uint32_t* domain_counts = counts.domain_DE.data() + batch.domain_of(t) * experts;
    std::uint32_t* byte_counts =
        counts.byte_256E.empty() ? nullptr : counts.byte_256E.data() + batch.input[t] * experts;
    for (std::size_t i = 0; i < top_k; ++i) {
      const std::size_t e = ids[i];
      ++domain_counts[e];
      if (byte_counts) ++byte_counts[e];
      for (std::size_t j = i; j < top_k; ++j) {
        const std::size_t other = ids[j];
        ++counts.together_EE[std::min(e, other) * experts + std::max(e, other)];
      }
    }
  }
}

void sum_tables(Ranks* ranks, std::vector<SpecialisationFrame>& frames) {
  for (SpecialisationFrame& counts : frames)
    for (std::vector<std::uint32_t>* table : {&counts.domain_DE, &counts.together_EE, &counts.byte_256E})
      sum_over_ranks(ranks, std::span(*table));
}

void mirror(SpecialisationFrame& counts) {
  const std::size_t experts = counts.n_experts();
  for (std::size_t i = 0; i < experts; ++i)
    for (std::size_t j = 0; j < i; ++j) counts.together_EE[i * experts + j] = counts.together_EE[j * experts + i];
}

}  // namespace

// Runs a forward pass over the tokens in sequences of `length`, of which the last one may be shorter, and returns its
// model.
const Transformer<float>& RoutedTexts::read(Reader& reader, const Learner<float>& learner,
                                            std::span<const std::int32_t> ids, int length) {
  const int sequences = to_int((ids.size() + size(length) - 1) / size(length));
  reader.config = learner.config;
  reader.config.router.aux_mode = AuxMode::none;
  reader.config.router.z_coeff = 0;
  reader.config.router.gate_noise = 0;  // choice of experts without noise
  Batch batch = empty_batch(sequences, length);
  std::ranges::copy(ids, batch.input.begin());
  if (!reader.model || !reader.model->fits(batch)) {
    reader.model.reset();
    reader.model = std::make_unique<Transformer<float>>(reader.config, learner.parameters, sequences, length);
  }
  PhaseClock clock;  // not read: the caller counts this pass as telemetry
  reader.model->forward(batch, learner.expert_bias, false, clock, learner.steps_taken);
  return *reader.model;
}

std::optional<TokenFrame> RoutedTexts::probe(const Learner<float>& learner, const Tokenizer* tokenizer) {
  const TelemetryConfig& config = learner.config.telemetry;
  const Ids ids = ids_of(tokenizer, unescape_bytes(config.probe).value_or(""));
  if (ids.empty() || config.texts_every == 0 || learner.model().moe().empty()) return std::nullopt;
  const int length = std::min(learner.config.data.seq, to_int(ids.size()));
  const Transformer<float>& model = read(probe_reader_, learner, ids, length);
  RoutedPassage passage(tokenizer, ids, TextKind::probe, kTextBytes);
  add_routing(passage, learner, model, ids, 0, size(length));
  return passage.take();
}

// Guesses all tokens, reads them in one pass, and draws from the predictions. The first drawn token that differs from
// the guess settles the tokens up to it, and the pass is repeated with the drawn tokens as the guess. The result equals
// drawing the tokens one by one, in fewer passes; the last pass has read the final tokens.
TokenFrame RoutedTexts::sample(const Learner<float>& learner, const Tokenizer* tokenizer, std::string_view prompt,
                               std::int64_t step) {
  const TelemetryConfig& config = learner.config.telemetry;
  const auto longest = size(learner.config.data.seq);
  Ids ids = ids_of(tokenizer, prompt.empty() ? "\n" : first_words(prompt));
  if (ids.empty()) ids.push_back(0);  // the tokenizer may drop white space
  ids.resize(std::min(ids.size(), std::max<std::size_t>(1, longest / 2)));
  const std::size_t prompted = ids.size();
  const Ids guess = ids_of(tokenizer, " ");
  ids.resize(std::min(longest, prompted + size(config.sample_length)), guess.empty() ? 0 : guess.front());
  const RandomStream dice(learner.config.seed, "telemetry.sample");
  const Transformer<float>* model = nullptr;
  for (std::size_t settled = prompted; model == nullptr || settled < ids.size();) {
    model = &read(sample_reader_, learner, ids, to_int(ids.size()));
    std::size_t next = ids.size();
    for (std::size_t t = ids.size(); t-- > settled;) {
      const auto number = static_cast<std::uint64_t>(step) << 16 | t;
      const std::int32_t drawn = draw(model->logits().values(t - 1), config.sample_temperature, dice.uniform(number));
      if (drawn == ids[t]) continue;
      ids[t] = drawn;
      next = t;
    }
    if (next == ids.size()) break;
    settled = next + 1;
    if (settled == ids.size()) model = nullptr;  // the last token changed after the pass
  }
  RoutedPassage passage(tokenizer, ids, TextKind::sample, kTextBytes);
  add_routing(passage, learner, *model, ids, 0, longest);
  passage.set_prompt(prompted);
  return passage.take();
}

bool RoutedTexts::due(const RunConfig& config, std::int64_t step) {
  return is_due_or_last(step, config.telemetry.texts_every, config) ||
         is_due_or_last(step, config.telemetry.sample_every, config);
}

std::vector<TokenFrame> RoutedTexts::collect(const Learner<float>& learner, const Batch& batch, std::int64_t step) {
  const TelemetryConfig& config = learner.config.telemetry;
  std::vector<TokenFrame> texts;
  if (learner.model().moe().empty()) return texts;
  const std::string text = unescape_bytes(config.probe).value_or("");
  const bool edited = last_probe_ && config.probe != *last_probe_;
  const bool texts_due = is_due_or_last(step, config.texts_every, learner.config);
  if (edited || texts_due)
    if (auto routed = probe(learner, batch.tokenizer)) texts.push_back(std::move(*routed));
  const bool bolder = last_probe_ && config.sample_temperature != last_temperature_;
  if (config.sample_every > 0 && (edited || bolder || is_due_or_last(step, config.sample_every, learner.config)))
    texts.push_back(sample(learner, batch.tokenizer, text, step));
  if (texts_due)
    texts.push_back(
        batch_passage(learner, batch, sequence_in_turn(batch, learner.model().part(), step / config.texts_every)));
  last_probe_ = config.probe;
  last_temperature_ = config.sample_temperature;
  return texts;
}

void SpecialisationCounter::add(const Batch& batch, const Learner<float>& learner) {
  const RunConfig& config = learner.config;
  if (config.telemetry.specialisation_every == 0) {
    counts_.clear();
    return;
  }
  const auto& moe = learner.model().moe();
  const std::size_t experts = config.model.n_experts;
  const std::size_t domains = count_of_domains(batch);
  if (counts_.size() != moe.size() || (!moe.empty() && counts_[0].domain_DE.size() < domains * experts)) {
    counts_.assign(moe.size(), {});
    for (std::size_t i = 0; i < moe.size(); ++i) {
      counts_[i].layer = config.model.n_dense_layers + to_int(i);
      counts_[i].domain_DE.resize(domains * experts);
      counts_[i].together_EE.resize(experts * experts);
      counts_[i].experts = config.model.n_experts;
      if (config.reads_bytes()) counts_[i].byte_256E.resize(256 * experts);
    }
  }
  const std::size_t top_k = learner.model().top_k();
  parallel_for(to_int(moe.size()), [&](int i) {
    const std::size_t layer = i;
    add_layer(batch, learner.model().part(), moe[layer].router.ids, top_k, counts_[layer]);
  });
}

std::vector<SpecialisationFrame> SpecialisationCounter::take(Ranks* ranks, bool restarts) {
  std::vector<SpecialisationFrame> frames = snapshot(ranks);
  for (SpecialisationFrame& counts : frames) mirror(counts);
  if (restarts) counts_.clear();
  return frames;
}

std::vector<SpecialisationFrame> SpecialisationCounter::snapshot(Ranks* ranks) const {
  std::vector<SpecialisationFrame> counts = counts_;
  sum_tables(ranks, counts);
  return counts;
}

// All ranks must hold tables of the same size, so that the tables can be summed; ranks other than 0 begin with zeros.
void SpecialisationCounter::restore(std::vector<SpecialisationFrame> counts, Ranks* ranks) {
  counts_ = std::move(counts);
  if (!ranks || ranks->rank() == 0) return;
  for (SpecialisationFrame& frame : counts_)
    for (std::vector<std::uint32_t>* table : {&frame.domain_DE, &frame.together_EE, &frame.byte_256E})
      std::ranges::fill(*table, 0);
}

}  // namespace moescope
