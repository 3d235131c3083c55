#include "core/model/text/dataset.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>

#include "core/model/text/domain_generator.h"

namespace moescope {
namespace {

constexpr std::size_t kMaxMeanBytesPerToken = 256;  // mean over a text; fill() throws above it

// Sequence i of a run (i = step * B + row) is cut from newly generated documents. Without a mixture, every round of as
// many sequences as there are domains contains each domain once, in a random order that is different for each round.
class GeneratedDataset : public Dataset {
 public:
  GeneratedDataset(const DataConfig& config, std::int64_t seed, std::unique_ptr<const Tokenizer> tokenizer)
      : Dataset(config, seed, std::move(tokenizer)),
        domains_(generated_domains(config.generator)),
        order_(seed, "data.domain_order"),
        text_(seed, "data.generated_text") {
    for (const Domain& domain : domains_) add_domain(domain.name, true);
  }

  std::string summary() const override {
    return config_.generator == Generator::facts ? fmt::format("built-in facts in {} languages", domains_.size())
                                                 : fmt::format("built-in generator of {} domains", domains_.size());
  }

 private:
  void fill_row(Batch& batch, int row, std::uint64_t index, const Mixture& mixture) const override {
    fill(batch, row, mixture.empty() ? domain_of(index) : mixture.domain_of(index), {text_, index});
  }
  void fill_held_out(Batch& batch, int row, std::uint64_t index, int domain) const override {
    fill(batch, row, domain, {held_out_text_, index});
  }

  int domain_of(std::uint64_t index) const {
    const auto domains = static_cast<std::uint32_t>(domains_.size());
    std::vector<int> deck(domains);
    std::iota(deck.begin(), deck.end(), 0);
    Draws draws(order_, index / domains);
    for (std::uint32_t remaining = domains; remaining > 1; --remaining)
      std::swap(deck[remaining - 1], deck[draws.below(remaining)]);
    return deck[index % domains];
  }

  // Fills a row with S + 1 tokens from a random position in a document on, so that a position in the row carries no
  // information about the content.
  void fill(Batch& batch, int row, int domain, Draws draws) const {
    const std::size_t skipped = draws.below(64);
    const std::size_t needed = skipped + config_.seq + 1;
    std::string text;
    const auto lengthen = [&](std::size_t bytes) {
      while (text.size() < bytes) domains_[domain].append_document(text, draws);
    };
    lengthen(needed);
    const auto tokens = [&] {
      return tokenizer_ ? tokenizer_->encode(text, SpecialTokenUse::without) : byte_tokens(text);
    };
    std::vector<std::int32_t> ids = tokens();
    for (; ids.size() < needed; ids = tokens()) {
      if (text.size() > kMaxMeanBytesPerToken * needed)
        throw std::runtime_error(fmt::format("{}: turns {} bytes of the built-in text into {} tokens only",
                                             config_.tokenizer, text.size(), ids.size()));
      lengthen(2 * text.size());
    }
    fill_sequence(batch, row, domain, std::span<const std::int32_t>(ids).subspan(skipped));
  }

  std::span<const Domain> domains_;
  RandomStream order_, text_, held_out_text_{0, "data.held_out_text"};
};

}  // namespace

std::size_t Batch::real_tokens() const {
  return input.size() - std::ranges::count(padding, std::uint8_t{1});
}

void Dataset::add_domain(const std::string& name, bool holds_out) {
  if (holds_out) held_out_.push_back(to_int(names_.size()));
  names_.push_back(name);
}

Batch Dataset::batch(std::int64_t step, const Mixture& mixture) const {
  Batch batch = empty_batch(config_.batch, config_.seq);
  batch.domain_names = &names_;
  batch.tokenizer = tokenizer_.get();
  for (int row = 0; row < config_.batch; ++row)
    fill_row(batch, row, static_cast<std::uint64_t>(step) * config_.batch + row, mixture);
  if (config_.documents > 1) pack(step, batch);
  if (config_.padding > 0) pad(step, batch);
  return batch;
}

std::vector<Batch> Dataset::held_out() const {
  if (held_out_.empty()) return {};
  std::vector<Batch> batches(kHeldOutBatches, empty_batch(config_.batch, config_.seq));
  std::uint64_t index = 0;
  for (Batch& batch : batches)
    for (int row = 0; row < config_.batch; ++row, ++index)
      fill_held_out(batch, row, index, held_out_[index % held_out_.size()]);
  return batches;
}

// All sequences are cut at the same places. Document d of packed sequence r is piece d of the unpacked sequence (r + d)
// mod B, so that each piece is used once.
void Dataset::pack(std::int64_t step, Batch& batch) const {
  const auto length = static_cast<std::uint32_t>(batch.length);
  const RandomStream stream(seed_, "data.documents");
  Draws draws(stream, step);
  std::set<std::uint32_t> begins;  // first tokens of the documents after the first one
  while (begins.size() + 1 < static_cast<std::size_t>(config_.documents)) begins.insert(1 + draws.below(length - 1));
  const std::vector<std::int32_t> input = batch.input, target = batch.target;
  const std::size_t sequences = batch.sequences;
  batch.token_domain.resize(input.size());
  for (std::size_t row = 0; row < sequences; ++row) {
    auto next = begins.begin();
    std::size_t source = row;
    for (std::uint32_t i = 0; i < length; ++i) {
      if (next != begins.end() && i == *next) {
        source = (source + 1) % sequences;
        ++next;
      }
      const std::size_t to = row * length + i, from = source * length + i;
      batch.input[to] = input[from];
      batch.target[to] = target[from];
      batch.token_domain[to] = batch.domain[source];
    }
  }
}

// Each sequence of the step ends in padding tokens, whose number is drawn uniformly from 0 to twice the mean share.
void Dataset::pad(std::int64_t step, Batch& batch) const {
  const RandomStream lengths(seed_, "data.padding");
  const std::size_t length = batch.length;
  batch.padding.assign(batch.input.size(), 0);
  for (std::size_t row = 0; row < static_cast<std::size_t>(batch.sequences); ++row) {
    const double share = 2 * config_.padding * lengths.uniform(static_cast<std::uint64_t>(step) * 4096 + row);
    const std::size_t padded = std::min(length - 1, static_cast<std::size_t>(share * length));
    const std::size_t end = (row + 1) * length;
    std::fill_n(batch.padding.begin() + end - padded, padded, std::uint8_t{1});
    std::fill_n(batch.input.begin() + end - padded, padded, 0);
  }
}

Batch empty_batch(int sequences, int length) {
  const std::size_t tokens = static_cast<std::size_t>(sequences) * length;
  Batch batch;
  batch.sequences = sequences;
  batch.length = length;
  batch.input.resize(tokens);
  batch.target.resize(tokens);
  batch.domain.resize(sequences);
  return batch;
}

std::vector<std::int32_t> byte_tokens(std::string_view text) {
  const std::span bytes(reinterpret_cast<const unsigned char*>(text.data()), text.size());
  return {bytes.begin(), bytes.end()};
}

void fill_sequence(Batch& batch, int row, int domain, std::span<const std::int32_t> ids) {
  const std::size_t length = batch.length;
  const std::ptrdiff_t first = row * length;
  std::ranges::copy(ids.first(length), batch.input.begin() + first);
  std::ranges::copy(ids.subspan(1, length), batch.target.begin() + first);
  batch.domain[row] = domain;
}

Mixture Dataset::mixture(const std::string& text) const {
  const std::vector<double> weights = mixture_weights(text, domains());
  return weights.empty() ? Mixture{} : Mixture(weights, seed_);
}

std::unique_ptr<Dataset> open_dataset(const DataConfig& config, std::int64_t seed, const GoesOn& goes_on) {
  std::unique_ptr<const Tokenizer> tokenizer;
  if (!config.tokenizer.empty()) tokenizer = std::make_unique<Tokenizer>(config.tokenizer);
  std::unique_ptr<Dataset> data = config.path.empty()
                                      ? std::make_unique<GeneratedDataset>(config, seed, std::move(tokenizer))
                                      : open_text_dataset(config, seed, std::move(tokenizer), goes_on);
  try {
    data->mixture_ = data->mixture(config.mixture);
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(std::string("data.mixture: ") + error.what());
  }
  return data;
}

}  // namespace moescope
