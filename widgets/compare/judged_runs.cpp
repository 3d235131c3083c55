#include "widgets/compare/judged_runs.h"

#include <cmath>

#include "core/findings/comparison/verdict.h"
#include "core/numerics/index.h"
#include "widgets/look/counted_text.h"
#include "widgets/panel/metric_text.h"
#include "widgets/panel/panel.h"

namespace moescope {
namespace {

// Returns the first log that has no loss at all, such as a trace of a router; nullptr if each log has one.
const History* runWithoutLoss(const std::vector<HistoryPtr>& histories) {
  const auto none = [](const HistoryPtr& history) {
    return history->info().config_toml.empty() && !history->steps().empty() &&
           history->series(Metric::ce_loss, kWholeRun, history->steps(), 1).at(0).finite == 0;
  };
  const auto found = std::ranges::find_if(histories, none);
  return found == histories.end() ? nullptr : found->get();
}

}  // namespace

int placesFor(float matters) {
  if (!std::isfinite(matters) || matters <= 0) return 4;
  return std::clamp(1 - static_cast<int>(std::floor(std::log10(matters))), 2, 6);
}

QString signedFixed(float value, int places) {
  QString digits = QString::number(value, 'f', places);
  if (digits.toDouble() == 0) digits = QString::number(value, 'g', 1);  // as of a tiny interval
  return (value > 0 ? QStringLiteral("+") : QString()) + withMinus(digits);
}

QString gapText(const Conclusion& conclusion) {
  const int places = placesFor(conclusion.matters);
  return signedFixed(conclusion.gap, places) + QStringLiteral(" \u00b1 ") +
         signedFixed(conclusion.half_width, places).remove(QLatin1Char('+'));
}

JudgedRuns::JudgedRuns(Selection* selection, const ComparedRuns* runs, QObject* parent)
    : QObject(parent), selection_(selection), runs_(runs) {
  // These are the first connections, so that all parts update after them.
  connect(this, &JudgedRuns::changed, this, [this] { is_stale_ = true; });
  connect(selection_, &Selection::dataChanged, this, [this] { is_stale_ = true; });
  connect(runs_, &ComparedRuns::changed, this, &JudgedRuns::changed);
  connect(selection_, &Selection::timeChanged, this, [this] {
    if (const std::int64_t last_step = lastStep(); std::exchange(shown_last_step_, last_step) != last_step)
      emit changed();
  });
}

QString JudgedRuns::update() {
  const auto& histories = selection_->histories();
  if (histories.empty()) return noDataYetNotice(*selection_);
  if (baseline_ >= std::ssize(histories) || selection_->isNoiseTwin(baseline_)) baseline_ = 0;
  if (histories.size() < 2) return nothingToCompareNotice();
  if (selection_->range().empty()) return noDataYetNotice(*selection_);
  if (const History* lossless = runWithoutLoss(histories))
    return notInLogNotice(lossless->info(), metricName(Metric::ce_loss));
  if (!std::exchange(is_stale_, false) && training_.runs() + 1 == std::ssize(histories)) return {};
  Judging judging = runs_->judging(*selection_);
  judging.last_step = lastStep();
  const auto other_runs = runs_->otherRuns(*selection_, baseline_), twins = runs_->twins(*selection_);
  training_.set(histories.front(), other_runs, twins, judging);
  validation_.set(histories.front(), other_runs, twins, judging);
  over_seeds_.clear();
  if (judging.last_step == kNoLastStep) over_seeds_ = overSeeds();
  return {};
}

Metric JudgedRuns::judgedLoss(int place) const {
  if (loss_ != Loss::deciding) return loss_ == Loss::training ? Metric::ce_loss : Metric::val_loss;
  const auto& histories = selection_->histories();
  return deciding_loss(*histories[selection_->isNoiseTwin(place) ? 0 : baseline_], *histories[place]);
}

void JudgedRuns::setBaseline(int place) {
  if (!selection_->isNoiseTwin(place) && std::exchange(baseline_, place) != place) setSeeds({}, 0);
}

std::int64_t JudgedRuns::lastStep() const {
  if (selection_->following() || selection_->histories().empty() || onTheSameTexts(*selection_)) return kNoLastStep;
  return selection_->stepOf(*selection_->histories()[baseline_], selection_->step());
}

// A run whose loss is NaN or infinite is judged by its training loss, which shows this first.
bool JudgedRuns::isByTraining(int place) const {
  return judgedLoss(place) == Metric::ce_loss || training_.conclusion(pairOf(place)).verdict == Verdict::lost;
}

const Conclusion& JudgedRuns::conclusion(int place) const {
  if (isOverSeeds())
    if (const int i = index_in(candidates(), place); i >= 0 && i < std::ssize(over_seeds_)) return over_seeds_[i];
  return (isByTraining(place) ? training_ : validation_).conclusion(pairOf(place));
}

const std::vector<PastVerdict>& JudgedRuns::past(int place) {
  static const std::vector<PastVerdict> kNone;
  if (isOverSeeds() || selection_->isNoiseTwin(place)) return kNone;
  return (isByTraining(place) ? training_ : validation_).past(pairOf(place));
}

std::vector<int> JudgedRuns::candidates() const {
  std::vector<int> places;
  const int baseline = baseline_ <= judged() ? baseline_ : 0;
  for (int place = 0; place <= judged(); ++place)
    if (place != baseline && !selection_->isNoiseTwin(place)) places.push_back(place);
  return places;
}

float JudgedRuns::matters() const {
  for (int place = 1; place <= judged(); ++place)
    if (const float matters = conclusion(place).matters; !is_missing(matters)) return matters;
  return kNoValue;
}

Settlement JudgedRuns::settlement() const {
  if (onTheSameTexts(*selection_) || isOverSeeds()) return {};
  std::vector<Conclusion> conclusions;
  for (const int place : candidates()) conclusions.push_back(conclusion(place));
  return what_settles(conclusions, room_, can_force_);
}

std::vector<Conclusion> JudgedRuns::newestConclusions() {
  std::vector<Conclusion> conclusions;
  if (!update().isEmpty()) return conclusions;
  for (const int place : candidates())
    conclusions.push_back((isByTraining(place) ? training_ : validation_).newest(pairOf(place)));
  return conclusions;
}

std::vector<Conclusion> JudgedRuns::openSeed() {
  if (!update().isEmpty()) return {};
  const HistoryPtr& a = selection_->histories().front();
  Judging judging = runs_->judging(*selection_);
  const auto steps = a->settings_at_start()->value(&OptimizerConfig::total_steps).value_or(0);
  if (steps > 0) judging.last_step = steps - 1;
  const auto other_runs = runs_->otherRuns(*selection_, baseline_), twins = runs_->twins(*selection_);
  std::vector<Conclusion> conclusions;
  for (const int place : candidates())
    conclusions.push_back(conclude(a, other_runs[pairOf(place) - 1], twins, judging,
                                   isByTraining(place) ? Metric::ce_loss : Metric::val_loss));
  return conclusions;
}

// Empty: there is one seed, a seed is still in training, or the earlier ones were judged by another loss.
std::vector<Conclusion> JudgedRuns::overSeeds() {
  if (seeds_.empty() || seeds_left_ > 0 || is_before_its_end(*selection_->histories().front())) return {};
  std::vector<Conclusion> conclusions = openSeed();
  for (std::size_t i = 0; i < conclusions.size(); ++i) {
    std::vector<Conclusion> seed_conclusions;
    for (const std::vector<Conclusion>& seed : seeds_) {
      if (seed.size() != conclusions.size() || seed[i].loss != conclusions[i].loss) return {};
      seed_conclusions.push_back(seed[i]);
    }
    seed_conclusions.push_back(conclusions[i]);
    conclusions[i] = over_seeds(seed_conclusions);
  }
  return conclusions;
}

std::optional<Conclusion> JudgedRuns::earlierSeeds(int place) const {
  const int candidate = index_in(candidates(), place);
  if (candidate < 0 || isOverSeeds() || lastStep() != kNoLastStep) return {};
  std::vector<Conclusion> conclusions;
  for (const std::vector<Conclusion>& seed : seeds_)
    if (candidate < std::ssize(seed)) conclusions.push_back(seed[candidate]);
  const bool has_verdict = !conclusions.empty() && !is_missing(conclusions.back().matters);  // not of a recording
  if (!has_verdict || conclusions.back().loss != conclusion(place).loss) return {};
  return conclusions.size() == 1 ? conclusions.front() : over_seeds(conclusions);
}

QString JudgedRuns::seedText() const {
  const int all = knownSeeds() + seeds_left_;
  if (isOverSeeds()) return countedText(all, "seed");
  return all > 1 ? QString("seed %1 of %2").arg(knownSeeds()).arg(all) : QString();
}

// With forced balance one seed never tells enough, whereas several leave open only what their interval does.
bool JudgedRuns::dependsOnSeed() const {
  if (isOverSeeds())
    return !openSeeds().letters.isEmpty() ||
           (knownSeeds() <= kMaxSeedsAtOnce && std::ranges::any_of(over_seeds_, is_at_edge));
  return std::ranges::any_of(candidates(), [this](int place) { return depends_on_seed(conclusion(place)); });
}

JudgedRuns::OpenSeeds JudgedRuns::openSeeds() const {
  OpenSeeds open;
  for (std::size_t i = 0; i < over_seeds_.size(); ++i) {
    const Conclusion& c = over_seeds_[i];
    if (c.verdict != Verdict::unclear) continue;
    const double seeds = seeds_to_settle(c, knownSeeds());
    const bool is_edge = knownSeeds() > kMaxSeedsAtOnce && seeds > knownSeeds() + kMaxSeedsAtOnce;
    (is_edge ? open.at_edge : open.letters) << runLetter(*selection_, candidates()[i]);
    if (is_edge)
      open.half_width_at_edge = std::max(open.half_width_at_edge, c.half_width);
    else
      open.seeds = std::max(open.seeds, seeds);
  }
  return open;
}

int JudgedRuns::seedsToAdd() const {
  return static_cast<int>(std::clamp<double>(openSeeds().seeds - knownSeeds(), kSeedsAtOnce, kMaxSeedsAtOnce));
}

QStringList JudgedRuns::openSeedsForms() const {
  const OpenSeeds open = openSeeds();
  QString text;
  if (!open.letters.isEmpty())
    text = QString("%1 may take %2 %3 seeds in all")
               .arg(listed(open.letters), open.seeds > knownSeeds() + kMaxSeedsAtOnce ? "more than" : "about")
               .arg(knownSeeds() + seedsToAdd());
  if (open.at_edge.isEmpty()) return text.isEmpty() ? QStringList() : QStringList{text};
  if (!text.isEmpty()) text += QStringLiteral(". ");
  const QString letters = listed(open.at_edge), known = QString::number(open.half_width_at_edge, 'g', 2);
  return {text + QString("%1, known to \u00b1%2, lies at the edge of what matters: more seeds will hardly decide it; "
                         "another gap that matters or a larger model may")
                     .arg(letters, known),
          text + QString("%1 lies at the edge of what matters: more seeds will hardly decide it").arg(letters),
          text + QString("%1 lies at the edge of what matters").arg(letters)};
}

}  // namespace moescope
