#include "core/data/dataset.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>

#include "core/data/domain_generator.h"
#include "core/data/text_dataset.h"

namespace moescope {
namespace {

constexpr std::size_t kMostBytesOfToken = 256;  // on average

// Sequence i of a run (i = step * B + row) is cut from newly generated documents. Domains take turns: every round of as
// many sequences as there are domains contains each domain once, in an order of its own.
class GeneratedDataset : public Dataset {
 public:
  GeneratedDataset(const DataConfig& config, std::int64_t seed, std::unique_ptr<const Tokenizer> tokenizer)
      : Dataset(seed, std::move(tokenizer)),
        config_(config),
        domains_(generated_domains(config.generator)),
        order_(seed, "data.domain_order"),
        text_(seed, "data.generated_text") {
    for (const Domain& domain : domains_) names_.push_back(domain.name);
  }

  const std::vector<std::string>& domains() const override { return names_; }
  std::string summary() const override {
    return config_.generator == Generator::facts
               ? "built-in facts in " + std::to_string(names_.size()) + " languages"
               : "built-in generator of " + std::to_string(names_.size()) + " domains";
  }

  Batch full_batch(std::int64_t step, const Mixture& mixture) const override {
    Batch batch = empty_batch(config_.batch, config_.seq);
    batch.domain_names = &names_;
    for (int row = 0; row < config_.batch; ++row) {
      const std::uint64_t index = static_cast<std::uint64_t>(step) * config_.batch + row;
      const int domain = mixture.empty() ? domain_of(index) : mixture.domain_of(index);
      fill(batch, row, domain, {text_, index});
    }
    return batch;
  }

  std::vector<Batch> held_out() const override {
    const RandomStream text(0, "data.held_out_text");
    std::vector<Batch> batches(kHeldOutBatches, empty_batch(config_.batch, config_.seq));
    for (std::size_t i = 0; i < batches.size(); ++i)
      for (int row = 0; row < config_.batch; ++row) {
        const std::uint64_t index = i * static_cast<std::size_t>(config_.batch) + static_cast<std::size_t>(row);
        const int domain = static_cast<int>(index % names_.size());
        fill(batches[i], row, domain, {text, index});
      }
    return batches;
  }

 private:
  int domain_of(std::uint64_t index) const {
    const auto domains = static_cast<std::uint32_t>(names_.size());
    std::vector<int> deck(domains);
    std::iota(deck.begin(), deck.end(), 0);
    Draws draws(order_, index / domains);
    for (std::uint32_t left = domains; left > 1; --left) std::swap(deck[left - 1], deck[draws.below(left)]);
    return deck[index % domains];
  }

  // S + 1 tokens from a random position in a document, so that a position carries no information about the content.
  void fill(Batch& batch, int row, int domain, Draws draws) const {
    const std::size_t skipped = draws.below(64);
    const std::size_t needed = skipped + static_cast<std::size_t>(config_.seq) + 1;
    std::string text;
    const auto lengthen = [&](std::size_t bytes) {
      while (text.size() < bytes) domains_[static_cast<std::size_t>(domain)].append_document(text, draws);
    };
    lengthen(needed);
    if (!tokenizer()) return fill_sequence(batch, row, domain, std::string_view(text).substr(skipped));
    std::vector<std::int32_t> ids = tokenizer()->encode(text, SpecialTokenUse::without);
    for (; ids.size() < needed; ids = tokenizer()->encode(text, SpecialTokenUse::without)) {
      if (text.size() > kMostBytesOfToken * needed)
        throw std::runtime_error(config_.tokenizer + ": turns " + std::to_string(text.size()) +
                                 " bytes of the built-in text into " + std::to_string(ids.size()) + " tokens only");
      lengthen(2 * text.size());
    }
    fill_sequence(batch, row, domain, std::span<const std::int32_t>(ids).subspan(skipped));
  }

  DataConfig config_;
  std::span<const Domain> domains_;
  RandomStream order_, text_;
  std::vector<std::string> names_;
};

}  // namespace

std::size_t Batch::real_tokens() const {
  return input.size() - static_cast<std::size_t>(std::ranges::count(padding, std::uint8_t{1}));
}

Batch Dataset::batch(std::int64_t step, const Mixture& mixture) const {
  Batch batch = full_batch(step, mixture);
  batch.tokenizer = tokenizer_.get();
  if (documents_ > 1) pack(step, batch);
  if (padding_ > 0) pad(step, batch);
  return batch;
}

// All sequences are cut at the same places; document d of sequence r is that of the unpacked sequence r + d, the last
// followed by the first. So each piece is used once.
void Dataset::pack(std::int64_t step, Batch& batch) const {
  const auto length = static_cast<std::uint32_t>(batch.length);
  const RandomStream stream(seed_, "data.documents");
  Draws draws(stream, static_cast<std::uint64_t>(step));
  std::set<std::uint32_t> begins;  // of the documents after the first
  while (begins.size() + 1 < static_cast<std::size_t>(documents_)) begins.insert(1 + draws.below(length - 1));
  const std::vector<std::int32_t> input = batch.input, target = batch.target;
  const auto sequences = static_cast<std::size_t>(batch.sequences);
  batch.token_domain.resize(input.size());
  for (std::size_t row = 0; row < sequences; ++row) {
    auto next = begins.begin();
    std::size_t source = row;
    for (std::uint32_t i = 0; i < length; ++i) {
      if (next != begins.end() && i == *next) source = (source + 1) % sequences, ++next;
      const std::size_t to = row * length + i, from = source * length + i;
      batch.input[to] = input[from];
      batch.target[to] = target[from];
      batch.token_domain[to] = batch.domain[source];
    }
  }
}

// Sequence `row` of the step ends in a number of padding tokens that is uniform from 0 to twice the mean share.
void Dataset::pad(std::int64_t step, Batch& batch) const {
  const RandomStream lengths(seed_, "data.padding");
  const auto length = static_cast<std::size_t>(batch.length);
  batch.padding.assign(batch.input.size(), 0);
  for (std::size_t row = 0; row < static_cast<std::size_t>(batch.sequences); ++row) {
    const double share = 2 * padding_ * lengths.uniform(static_cast<std::uint64_t>(step) * 4096 + row);
    const std::size_t padded = std::min(length - 1, static_cast<std::size_t>(share * static_cast<double>(length)));
    const std::size_t end = (row + 1) * length;
    std::fill_n(batch.padding.begin() + static_cast<std::ptrdiff_t>(end - padded), padded, std::uint8_t{1});
    std::fill_n(batch.input.begin() + static_cast<std::ptrdiff_t>(end - padded), padded, 0);
  }
}

Batch empty_batch(int sequences, int length) {
  const std::size_t tokens = static_cast<std::size_t>(sequences) * length;
  Batch batch;
  batch.sequences = sequences;
  batch.length = length;
  batch.input.resize(tokens);
  batch.target.resize(tokens);
  batch.domain.resize(static_cast<std::size_t>(sequences));
  return batch;
}

void fill_sequence(Batch& batch, int row, int domain, std::string_view text) {
  const std::size_t first = static_cast<std::size_t>(row) * batch.length;
  for (std::size_t i = 0; i < static_cast<std::size_t>(batch.length); ++i) {
    batch.input[first + i] = static_cast<unsigned char>(text[i]);
    batch.target[first + i] = static_cast<unsigned char>(text[i + 1]);
  }
  batch.domain[row] = domain;
}

void fill_sequence(Batch& batch, int row, int domain, std::span<const std::int32_t> ids) {
  const auto length = static_cast<std::size_t>(batch.length);
  const auto first = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * length);
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
    data->documents_ = config.documents;
    data->padding_ = config.padding;
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(std::string("data.mixture: ") + error.what());
  }
  return data;
}

}  // namespace moescope
