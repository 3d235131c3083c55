#include "core/data/dataset.h"

#include <numeric>
#include <stdexcept>

#include "core/data/domain_generator.h"
#include "core/data/text_dataset.h"

namespace moescope {
namespace {

// Sequence i of a run (i = step * B + row) is cut from newly generated documents. Domains take turns: every round of as
// many sequences as there are domains contains each domain once, in an order of its own.
class GeneratedDataset : public Dataset {
 public:
  GeneratedDataset(const DataConfig& config, std::int64_t seed)
      : Dataset(seed),
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
      fill_sequence(batch, row, domain, sequence_text(text_, index, domain));
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
        fill_sequence(batches[i], row, domain, sequence_text(text, index, domain));
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

  // S + 1 bytes from a random position in a document, so that a position carries no information about the content.
  std::string sequence_text(const RandomStream& stream, std::uint64_t index, int domain) const {
    Draws draws(stream, index);
    const std::size_t skipped = draws.below(64);
    const std::size_t needed = skipped + static_cast<std::size_t>(config_.seq) + 1;
    std::string text;
    while (text.size() < needed) domains_[static_cast<std::size_t>(domain)].append_document(text, draws);
    return text.substr(skipped, needed - skipped);
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

// Sequence `row` of the step ends in a number of padding tokens that is uniform from 0 to twice the mean share.
Batch Dataset::batch(std::int64_t step, const Mixture& mixture) const {
  Batch batch = full_batch(step, mixture);
  if (padding_ == 0) return batch;
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
  return batch;
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

Mixture Dataset::mixture(const std::string& text) const {
  const std::vector<double> weights = mixture_weights(text, domains());
  return weights.empty() ? Mixture{} : Mixture(weights, seed_);
}

std::unique_ptr<Dataset> open_dataset(const DataConfig& config, std::int64_t seed, const GoesOn& goes_on) {
  std::unique_ptr<Dataset> data =
      config.path.empty() ? std::make_unique<GeneratedDataset>(config, seed) : open_text_dataset(config, seed, goes_on);
  try {
    data->mixture_ = data->mixture(config.mixture);
    data->padding_ = config.padding;
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(std::string("data.mixture: ") + error.what());
  }
  return data;
}

}  // namespace moescope
