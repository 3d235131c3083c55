#include "core/training/routed_texts.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/io/text_escape.h"
#include "core/numerics/rng.h"
#include "core/numerics/size.h"
#include "core/training/trainer.h"

namespace moescope {
namespace {

constexpr std::size_t kPromptBytes = 24;
constexpr std::size_t kPassageBytes = 256;

// Returns -ln p of `byte` under softmax(logits).
float loss_of(std::span<const float> logits, unsigned char byte) {
  const float top = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - top);
  return static_cast<float>(std::log(sum) + top - logits[byte]);
}

// Returns the byte at which the cumulative distribution of softmax(logits / temperature) exceeds `u`, in [0, 1).
unsigned char draw(std::span<const float> logits, double temperature, double u) {
  const auto best = std::ranges::max_element(logits);
  if (temperature == 0) return static_cast<unsigned char>(best - logits.begin());
  std::vector<double> sums;
  double sum = 0;
  for (const float logit : logits) sums.push_back(sum += std::exp((static_cast<double>(logit) - *best) / temperature));
  const auto at = std::ranges::upper_bound(sums, u * sum);
  return static_cast<unsigned char>(std::min<std::ptrdiff_t>(at - sums.begin(), std::ssize(logits) - 1));
}

std::span<const float> logits_row(const Transformer<float>& model, std::size_t row) {
  constexpr std::size_t kVocabulary = 256;  // fixed by config_fields
  return {model.logits() + row * kVocabulary, kVocabulary};
}

// Returns the routing of tokens [first, first + count) of the model's last pass, with experts in the order of choice.
TokenLayer token_layer(const RouterConfig& config, const RouterActivations<float>& router,
                       std::span<const float> expert_bias, int layer, std::size_t top_k, std::size_t first,
                       std::size_t count) {
  const std::size_t experts = expert_bias.size();
  TokenLayer out;
  out.layer = layer;
  out.top_k = static_cast<int>(top_k);
  std::vector<std::int32_t> ids(top_k);
  for (std::size_t t = first; t < first + count; ++t) {
    const float* scores = router.scores + t * experts;
    std::copy_n(router.ids.data() + t * top_k, top_k, ids.begin());
    const bool by_logit = config.balance_rule == BalanceRule::quantile_microbatch;
    const float* judged = by_logit ? router.logits + t * experts : scores;
    std::ranges::stable_sort(ids, std::greater(), [&](std::int32_t e) { return judged[e] + expert_bias[size(e)]; });
    for (const std::int32_t e : ids) {
      out.experts_TK.push_back(static_cast<std::uint16_t>(e));
      out.scores_TK.push_back(scores[e]);
    }
    const float margin = router.margin[t];
    out.margin_T.push_back(std::isnan(margin) ? kNoValue : margin);
  }
  return out;
}

// Token first + t of the model's pass is byte t of `text`, in sequences of `length`.
TokenFrame routed(const Learner<float>& learner, const Transformer<float>& model, TextKind kind, std::string text,
                  std::size_t first, std::size_t length) {
  TokenFrame frame;
  frame.kind = kind;
  frame.text = std::move(text);
  for (std::size_t t = 0; t < frame.text.size(); ++t)
    frame.loss_T.push_back(t % length == 0
                               ? kNoValue
                               : loss_of(logits_row(model, first + t - 1), static_cast<unsigned char>(frame.text[t])));
  for (std::size_t i = 0; i < model.moe().size(); ++i)
    frame.layers.push_back(token_layer(learner.config.router, model.moe()[i].router, learner.expert_bias[i],
                                       learner.config.model.n_dense_layers + static_cast<int>(i), size(model.top_k()),
                                       first, frame.text.size()));
  return frame;
}

// Returns a sequence of the domain whose turn it is, or of the next domain that has a sequence on this rank.
int sequence_in_turn(const Batch& batch, const BatchPart& part, std::int64_t turn) {
  const auto domains = batch.domain_names ? std::ssize(*batch.domain_names)
                                          : *std::ranges::max_element(batch.domain) + std::ptrdiff_t{1};
  const auto distance = [&](std::int32_t domain) { return (domain - turn % domains + domains) % domains; };
  const auto first = batch.domain.begin() + part.first_sequence;
  return static_cast<int>(std::ranges::min_element(first, first + part.sequences, {}, distance) - batch.domain.begin());
}

}  // namespace

// Reads the text in sequences of `length`; the last one may be shorter.
const Transformer<float>& RoutedTexts::read(Reader& reader, const Learner<float>& learner, std::string_view text,
                                            int length) {
  const int sequences = static_cast<int>((text.size() + size(length) - 1) / size(length));
  reader.config = learner.config;
  reader.config.router.aux_mode = AuxMode::none;
  reader.config.router.z_coeff = 0;
  reader.config.router.gate_noise = 0;  // choice of experts without noise
  const bool fits = reader.model && reader.model->sequences() == sequences && reader.model->length() == length &&
                    reader.model->top_k() == reader.config.router.top_k;
  if (!fits) {
    reader.model.reset();
    reader.model = std::make_unique<Transformer<float>>(reader.config, learner.parameters, sequences, length);
  }
  Batch batch = empty_batch(sequences, length);
  for (std::size_t t = 0; t < text.size(); ++t) batch.input[t] = static_cast<unsigned char>(text[t]);
  PhaseClock clock;  // the caller counts all of it as telemetry
  clock.start(Phase::other);
  reader.model->forward(batch, learner.expert_bias, false, clock, learner.steps_taken);
  return *reader.model;
}

TokenFrame RoutedTexts::probe(const Learner<float>& learner, const std::string& text) {
  const int length = std::min(learner.config.data.seq, static_cast<int>(text.size()));
  const Transformer<float>& model = read(probe_reader_, learner, text, length);
  return routed(learner, model, TextKind::probe, text, 0, size(length));
}

// Guesses all bytes, reads them in one pass, and draws from the predictions. The first drawn byte that differs from the
// guess settles the bytes up to it, and the pass is repeated with the drawn bytes as the guess. The result equals
// drawing the bytes one by one, in fewer passes; the last pass has read the final bytes.
TokenFrame RoutedTexts::sample(const Learner<float>& learner, std::string_view prompt, std::int64_t step) {
  const TelemetryConfig& config = learner.config.telemetry;
  const auto longest = size(learner.config.data.seq);
  prompt = prompt.empty() ? "\n" : prompt.substr(0, std::min(kPromptBytes, std::max<std::size_t>(1, longest / 2)));
  std::string text(prompt);
  text.resize(std::min(longest, prompt.size() + size(config.sample_length)), ' ');
  const RandomStream dice(learner.config.seed, "telemetry.sample");
  const Transformer<float>* model = nullptr;
  for (std::size_t settled = prompt.size(); model == nullptr || settled < text.size();) {
    model = &read(sample_reader_, learner, text, static_cast<int>(text.size()));
    std::size_t next = text.size();
    for (std::size_t t = text.size(); t-- > settled;) {
      const auto number = static_cast<std::uint64_t>(step) << 16 | t;
      const char drawn =
          static_cast<char>(draw(logits_row(*model, t - 1), config.sample_temperature, dice.uniform(number)));
      if (drawn == text[t]) continue;
      text[t] = drawn;
      next = t;
    }
    if (next == text.size()) break;
    settled = next + 1;
    if (settled == text.size()) model = nullptr;  // the last byte changed after the pass
  }
  TokenFrame frame = routed(learner, *model, TextKind::sample, std::move(text), 0, longest);
  frame.prompt = static_cast<int>(prompt.size());
  return frame;
}

bool RoutedTexts::due(const TelemetryConfig& config, std::int64_t step) {
  return is_due(step, config.texts_every) || is_due(step, config.sample_every);
}

std::vector<TokenFrame> RoutedTexts::collect(const Learner<float>& learner, const Batch& batch, std::int64_t step) {
  const TelemetryConfig& config = learner.config.telemetry;
  std::vector<TokenFrame> texts;
  if (learner.model().moe().empty()) return texts;
  const std::string text = unescape_bytes(config.probe).value_or("");
  const bool edited = last_probe_ && config.probe != *last_probe_;
  if (!text.empty() && config.texts_every > 0 && (edited || is_due(step, config.texts_every)))
    texts.push_back(probe(learner, text));
  const bool bolder = last_probe_ && config.sample_temperature != last_temperature_;
  if (config.sample_every > 0 && (edited || bolder || is_due(step, config.sample_every)))
    texts.push_back(sample(learner, text, step));
  if (is_due(step, config.texts_every))
    texts.push_back(
        batch_passage(learner, batch, sequence_in_turn(batch, learner.model().part(), step / config.texts_every)));
  last_probe_ = config.probe;
  last_temperature_ = config.sample_temperature;
  return texts;
}

TokenFrame batch_passage(const Learner<float>& learner, const Batch& batch, int sequence) {
  const std::size_t first = size(sequence) * size(batch.length);
  const std::size_t count = std::min(kPassageBytes, size(batch.length));
  std::string text;
  for (std::size_t t = first; t < first + count; ++t) text += static_cast<char>(batch.input[t]);
  const std::size_t here = first - learner.model().part().first_token();
  TokenFrame frame = routed(learner, learner.model(), TextKind::batch, std::move(text), here, size(batch.length));
  if (batch.domain_names) frame.domain = (*batch.domain_names)[size(batch.domain[size(sequence)])];
  return frame;
}

}  // namespace moescope
