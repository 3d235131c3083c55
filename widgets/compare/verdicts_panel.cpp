#include "widgets/compare/verdicts_panel.h"

#include <algorithm>
#include <cmath>

#include "core/numerics/processor.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/panel/tensor_text.h"

namespace moescope {
namespace {

constexpr double kMaxFlushedShare = 0.05;  // limit above which findings report underflow
constexpr std::array<double, 5> kRelevantShares = {0.001, 0.0025, 0.005, 0.01, 0.02};

// "experts in MXFP4", "lr 0.002".
QString settingWords(const SettingDifference& setting) {
  if (setting.key.section(QLatin1Char('.'), -1) == QLatin1String("aux_coeff"))
    return setting.run_value.toDouble() == 0 ? QString("no auxiliary loss")
                                             : QString("auxiliary loss %1").arg(setting.run_value);
  const QString name = setting.key.section(QLatin1Char('.'), -1).replace(QLatin1Char('_'), QLatin1Char(' '));
  if (setting.run_value == QLatin1String("true")) return QString("with %1").arg(name);
  if (setting.run_value == QLatin1String("false")) return QString("without %1").arg(name);
  return recipe_named(setting.run_value.toStdString()) ? QString("%1 in %2").arg(name, valueWords(setting.run_value))
                                                       : name + QLatin1Char(' ') + setting.run_value;
}

// "linear layers in MXFP4" if several classes of layers have the same recipe and nothing else differs; else empty.
QString sharedRecipeWords(const std::vector<SettingDifference>& settings) {
  const auto has_recipe = [&](const SettingDifference& setting) {
    return setting.key.startsWith(QLatin1String("precision.")) && setting.run_value == settings.front().run_value;
  };
  if (settings.size() < 3 || !std::ranges::all_of(settings, has_recipe)) return {};
  return QString("linear layers in %1").arg(valueWords(settings.front().run_value));
}

// "experts in MXFP8 from step 198", one text for each setting that was changed during the run up to `last_step`.
QStringList liveChanges(const History& history, std::int64_t last_step) {
  QStringList changes;
  for (const Marker& marker : history.markers()) {
    if (marker.kind != kChangeKind || marker.run != history.info().run || marker.step > last_step) continue;
    const SettingDifference setting{QString::fromStdString(marker.key), {}, QString::fromStdString(marker.value)};
    const QString words = settingWords(setting).section(QLatin1Char(','), 0, 0);  // without the rule of the scales
    changes << QString("%1 from step %2").arg(words, formatCount(marker.step));
  }
  return changes;
}

QString dash() {
  return QStringLiteral("–");
}

QString shareOrDash(float share) {
  return std::isfinite(share) ? formatPercent(share) : dash();
}

// Three digits and one unit in all rows: 96.5k beside 101k.
QString speedText(float speed) {
  constexpr float kThousands = 1e4f;
  if (!std::isfinite(speed)) return dash();
  return speed < kThousands ? formatCount(speed) : QString::number(speed / 1000, 'g', 3) + QLatin1Char('k');
}

}  // namespace

QString shareText(double share) {
  return QString::number(100 * share, 'g', 3) + QStringLiteral(" %");
}

VerdictsPanel::VerdictsPanel(Selection* selection, ComparedRuns* runs, JudgedRuns* judged, QWidget* parent)
    : Panel(selection, "Verdicts", Provenance::measured_here, parent), runs_(runs), judged_(judged) {
  table_ = new VerdictTable(this);
  table_->refill = [this] { refill(); };
  followSelection(table_);
  connect(judged_, &JudgedRuns::changed, table_, &PlotFrame::markDirty);
  connect(table_, &VerdictTable::rowChosen, selection_, &Selection::setRun);
  connect(table_, &VerdictTable::baselineChosen, judged_, &JudgedRuns::setBaseline);

  auto* choices = new QWidget(this);
  auto* row = plainRow(choices, kSpace8);
  loss_ = makeChoice(
      {"training loss", "validation loss"}, "Judged loss",
      "The loss whose gap is judged. By default the validation loss where it is measured, else the training loss");
  connect(loss_, &QComboBox::activated, this, [this](int index) {
    judged_->setLoss(index == 1 ? JudgedRuns::Loss::validation : JudgedRuns::Loss::training);
  });
  matters_ =
      makeChoice({}, "Gap that matters",
                 "A gap of this share of the baseline's loss matters. 0.25 % is the relative error of FP8 against "
                 "BF16 that DeepSeek-V3 calls within training randomness");
  for (const double share : kRelevantShares) matters_->addItem(QString("%1 matters").arg(shareText(share)), share);
  matters_->setCurrentIndex(1);
  connect(matters_, &QComboBox::currentIndexChanged, this,
          [this] { runs_->setShare(matters_->currentData().toDouble()); });
  row->addWidget(loss_);
  row->addWidget(matters_);
  addControl(choices);
  stack_ = new QStackedWidget(this);
  stack_->addWidget(table_);
  addBody(stack_);
  guide_ = new QLabel(this);
  guide_->setWordWrap(true);
  guide_->setAlignment(Qt::AlignTop);
  guide_->hide();
  addBody(guide_, 2);
  connect(selection_, &Selection::dataChanged, this, &VerdictsPanel::fillGuide);
  disconnect(table_, &PlotFrame::readoutChanged, this, nullptr);  // too long for the status line
  table_->setAccessibleName(title());
  giveFocusTo(table_);
  keepState(
      "matters", [this] { return runs_->share(); }, [this](const QVariant& state) { chooseMatters(state.toDouble()); });
}

void VerdictsPanel::addView(const QString& name, QWidget* view, std::function<ValueTable()> table) {
  stack_->addWidget(view);
  other_table_ = std::move(table);
  switch_ = new ViewSwitch({"Open runs", name}, this);
  switch_->setAccessibleName("Verdicts shown");
  connect(switch_, &ViewSwitch::changed, this, &VerdictsPanel::showView);
  addControl(switch_);
}

void VerdictsPanel::showView(int view) {
  switch_->setCurrent(view);
  stack_->setCurrentIndex(view);
  giveFocusTo(stack_->currentWidget());
  fillGuide();
  emit viewShown();
}

int VerdictsPanel::heightWanted() const {
  const int rows = std::max<int>(1, to_int(selection_->histories().size()));
  const QMargins around = layout()->contentsMargins();
  return (showsRuns() ? table_->heightFor(rows) : stack_->currentWidget()->sizeHint().height()) +
         header()->minimumHeight() + around.top() + around.bottom();
}

void VerdictsPanel::refill() {
  const QString notice = judged_->update();
  const bool is_alone = selection_->histories().size() == 1 && !selection_->range().empty();
  table_->setNotice(is_alone ? QString() : notice);
  if (!table_->notice().isEmpty()) return;
  window_ = last_common_steps(selection_->histories(), kWindow, judged_->lastStep());
  sqnr_ = operand_sqnr(selection_->histories(), window_.last);
  showLoss();
  table_->setRows(rows(), judged_->matters(), shareText(runs_->share()));
  table_->setActive(selection_->run());
}

// Says what to open or train beside a single run.
void VerdictsPanel::fillGuide() {
  guide_->setVisible(selection_->histories().size() == 1 && showsRuns());
  const bool live = judged_->live();
  guide_->setText(
      QString("<p><b>%1</b> with other settings, such as another format or balancing, shows what they cost: its loss "
              "gap, its loads and all other figures stand beside those of A.</p>"
              "<p><b>%2</b> shows what chance alone changes: gaps then have intervals and verdicts.</p>%3")
          .arg(live ? "Another run" : "A second log", live ? "A noise twin" : "Another log with the settings of A",
               live ? "" : "<p>The button <i>+ Log</i> opens it; files can also be dropped on the window.</p>"));
}

// Selects the loss that decides about the first candidate, unless the user has chosen a loss.
void VerdictsPanel::showLoss() {
  if (judged_->loss() != JudgedRuns::Loss::deciding || selection_->histories().size() == 1) return;
  const auto places = judged_->candidates();
  const int first = places.empty() ? 1 : places.front();
  loss_->setVisible(!onTheSameTexts(*selection_));
  loss_->setCurrentIndex(judged_->conclusion(first).loss == Metric::val_loss ? 1 : 0);
}

std::vector<VerdictRow> VerdictsPanel::rows() const {
  std::vector<VerdictRow> rows;
  for (int place = 0; place < to_int(selection_->histories().size()); ++place) rows.push_back(row(place));
  return rows;
}

VerdictRow VerdictsPanel::row(int place) const {
  VerdictRow row;
  row.letter = runLetter(*selection_, place);
  row.name = runName(*selection_, place);
  row.color = runColor(*selection_, place);
  row.noise = selection_->isNoiseTwin(place);
  row.baseline = place == judged_->baseline();
  row.note = note(place);
  row.note_tip = settingsOf(place).join(QStringLiteral(", "));
  addGap(row, place);
  addCosts(row, place);
  return row;
}

void VerdictsPanel::addGap(VerdictRow& row, int place) const {
  VerdictFigure& gap = row.figures[VerdictRow::kGap];
  if (row.baseline) {
    if (selection_->histories().size() == 1) return;
    row.reasons = {"baseline of the other runs", "baseline"};
    row.gap = 0;
    gap.text = QStringLiteral("0");
    return;
  }
  const Conclusion& c = judged_->conclusion(place);
  row.gap = c.gap;
  row.half_width = c.half_width;
  if (row.noise) {
    row.reasons = {"effect of chance alone", "chance"};
    if (judged_->baseline() != 0) row.reasons = {"effect of chance alone, gap to A", "chance, gap to A"};
    if (judged_->isOverSeeds()) row.reasons = {"effect of chance alone, in the last seed", "chance, last seed"};
  } else {
    row.word = verdict_word(c);
    row.sign = signOf(c);
    row.verdict = QString::fromStdString(verdict_name(c));
    for (const std::string& reason : verdict_reasons(c)) row.reasons << QString::fromStdString(reason);
    if (const auto earlier = judged_->earlierSeeds(place)) {
      const QString verdict = QString("%1 before: %2")
                                  .arg(countedText(to_int(judged_->seeds().size()), "seed"),
                                       QString::fromStdString(verdict_text(verdict_word(*earlier))));
      row.reasons = {verdict};
      if (!is_missing(earlier->half_width)) row.reasons.prepend(verdict + QStringLiteral(", ") + gapText(*earlier));
    } else if (const std::string before = withdrawn_text(judged_->past(place), c); !before.empty()) {
      row.reasons.prepend(row.reasons.value(0) + QStringLiteral("; ") + QString::fromStdString(before));
    }
  }
  const int places = placesFor(judged_->matters());
  gap.text = std::isfinite(c.gap) ? signedFixed(c.gap, places) : dash();
  if (row.word && std::isfinite(c.gap) && is_missing(c.half_width)) gap.below = "unknown";
  if (std::isfinite(c.half_width) && c.half_width > 0) {
    const bool tiny = c.half_width < 0.5 * std::pow(10.0, -places);
    gap.below = QStringLiteral("±") +
                (tiny ? QString::number(c.half_width, 'g', 1) : QString::number(c.half_width, 'f', places));
  }
  if (!c.steps.empty() && std::isfinite(c.gap))
    gap.tip = QString("%1, nats/token, steps %2 to %3")
                  .arg(QLatin1String(loss_words(c.loss)), formatCount(c.steps.first), formatCount(c.steps.last)) +
              (judged_->isOverSeeds() && !row.noise ? ", mean of " + judged_->seedText() : QString());
}

// The newest measurements of a run up to the step of the cursor.
FormatCosts VerdictsPanel::costsOf(int place) const {
  const History& history = *selection_->histories()[place];
  return format_costs(history, selection_->shownStepOf(history));
}

void VerdictsPanel::addCosts(VerdictRow& row, int place) const {
  const History& history = *selection_->histories()[place];
  const FormatCosts costs = costsOf(place);
  const OperandSqnr& sqnr = sqnr_[place];
  const QString worst = std::isinf(sqnr.worst_db) ? QString("exact") : QString::number(sqnr.worst_db, 'f', 1);
  row.figures[VerdictRow::kSqnr] = {
      .text = is_missing(sqnr.worst_db) ? dash() : worst,
      .below = {},
      .tip = sqnr.operands > 0 ? printedText(to_text(sqnr)) : QString("nothing is quantized")};
  row.figures[VerdictRow::kFlushed] = {.text = shareOrDash(costs.flushed),
                                       .below = {},
                                       .bad = costs.flushed > kMaxFlushedShare,
                                       .tip = costs.flushed > 0 ? placeName(costs.flushed_operand) : QString()};
  const bool is_forced = history.settings_at_start()->holds(&RouterConfig::force_balance);
  if (!is_forced) row.figures[VerdictRow::kFlips].text = shareOrDash(costs.flips);
  row.figures[VerdictRow::kGradient].text = shareOrDash(costs.gradient_error);
  row.figures[VerdictRow::kSpeed] = {
      .text = speedText(run_figures(history, window_).tokens_per_s),
      .below = {},
      .tip = "emulated formats, no speed of a GPU; " + QString::fromStdString(multiplied_by(history.info().kernels))};
}

// "precision.experts=mxfp4", one text for each setting that differs from run A.
QStringList VerdictsPanel::settingsOf(int place) const {
  QStringList settings;
  if (place < std::ssize(runs_->runs()))
    for (const SettingDifference& setting : runs_->runs()[place].settings)
      settings << setting.key + QLatin1Char('=') + setting.run_value;
  return settings;
}

// Returns the settings of a run, with its live changes up to the cursor: "experts in BF16, MXFP8 from step 198".
QString VerdictsPanel::note(int place) const {
  const QString start = noteAtStart(place);
  QStringList changes = liveChanges(*selection_->histories()[place], selection_->step());
  if (changes.isEmpty()) return start;
  const QString setting = changes.front().section(QStringLiteral(" in "), 0, 0) + QStringLiteral(" in ");
  if (start.startsWith(setting) && changes.front().startsWith(setting)) changes.front().remove(0, setting.size());
  if (changes.size() > 1) changes = {QString("%1 live changes").arg(changes.size())};
  if (!start.isEmpty()) changes.prepend(start);
  return changes.join(QStringLiteral(", "));
}

QString VerdictsPanel::noteAtStart(int place) const {
  const History& history = *selection_->histories()[place];
  if (place == 0) {
    const auto experts = history.settings_at_start()->text(&PrecisionConfig::experts);
    const auto differs_in_all = [&](const ComparedRun& run) {
      return !sharedRecipeWords(run.settings).isEmpty() && std::ranges::all_of(run.settings, [&](const auto& setting) {
        return setting.a_value == experts->c_str();
      });
    };
    if (!experts) return {};
    const bool all = std::ranges::any_of(runs_->runs(), differs_in_all);
    return (all ? QString("linear layers in %1") : QString("experts in %1"))
        .arg(valueWords(QString::fromStdString(*experts)));
  }
  if (place >= std::ssize(runs_->runs())) return {};
  const ComparedRun& run = runs_->runs()[place];
  if (run.noise_twin) {
    QString kind("noise twin: A with another seed");
    if (run.same_start)
      kind = run_origin(history.info()) == RunOrigin::log ? QString("noise twin: the settings of A")
                                                          : QString("noise twin: A, weights perturbed");
    return run.twin_until ? kind + QString(", up to step %1").arg(formatCount(run.twin_until->steps().last)) : kind;
  }
  if (QString shared = sharedRecipeWords(run.settings); !shared.isEmpty()) return shared;
  QStringList words;
  for (const SettingDifference& setting : run.settings) words << settingWords(setting);
  if (words.size() > 2) words = {words.front(), QString("%1 more settings").arg(words.size() - 1)};
  return words.join(QStringLiteral(", "));
}

QString VerdictsPanel::status() const {
  if (!table_->notice().isEmpty()) return {};
  for (const int place : judged_->candidates()) {
    const StepRange steps = judged_->conclusion(place).steps;
    if (steps.empty()) continue;
    const RunInfo& run = selection_->histories().front()->info();
    const QString model = run.tokens_per_step > 0 ? QString("; %1 MoE layers of %2 experts, %3 tokens per step")
                                                        .arg(run.moe_layers.size())
                                                        .arg(run.n_experts)
                                                        .arg(formatCount(run.tokens_per_step))
                                                  : QString();
    QString seeds = judged_->seedText();
    if (!seeds.isEmpty()) seeds += judged_->isOverSeeds() ? ", costs of the last; " : "; ";
    return seeds +
           QString("%1 %2 to %3")
               .arg(onTheSameTexts(*selection_) ? QString("batches") : QString("steps"), formatCount(steps.first),
                    formatCount(steps.last)) +
           (judged_->lastStep() == kNoLastStep ? QString() : QString(", at the cursor")) + model;
  }
  return {};
}

ValueTable VerdictsPanel::tableOfRuns() const {
  table_->refill();
  ValueTable table({{"run"},
                    {"name"},
                    {"noise twin"},
                    {"differs in"},
                    {"verdict"},
                    {"reason"},
                    {"judged loss"},
                    {"first judged step"},
                    {"last judged step"},
                    {"gap to " + judged_->baselineLetter().toStdString(), "nats/token"},
                    {"half width of its 95 % interval", "nats/token"},
                    {"gap that matters", "nats/token"},
                    {"noise twins"},
                    {"candidates"},
                    {"seeds"},
                    {"lowest SQNR", "dB"},
                    {"mean SQNR", "dB"},
                    {"flushed to zero", "share"},
                    {"flips by rounding", "share"},
                    {"flips against A", "share"},
                    {"gradient error", "share"},
                    {"gradient cosine"},
                    {"tokens/s"},
                    {"loss of the last step", "nats/token"},
                    {"mean loss", "nats/token"},
                    {"MaxVio of the batch"},
                    {"settings"}});
  if (!table_->notice().isEmpty()) return table;
  for (int place = 0; place < to_int(table_->rows().size()); ++place) {
    const VerdictRow& row = table_->rows()[place];
    const History& history = *selection_->histories()[place];
    const Conclusion c = row.baseline ? Conclusion{} : judged_->conclusion(place);
    const FormatCosts costs = costsOf(place);
    const RunFigures figures = run_figures(history, window_);
    const OperandSqnr& sqnr = sqnr_[place];
    const bool is_forced = history.settings_at_start()->holds(&RouterConfig::force_balance);
    const auto if_judged = [judged = !c.steps.empty()](auto value) {
      return judged ? table_value(value) : TableValue();
    };
    table.add(row.letter.toStdString(), row.name.toStdString(), std::string(row.noise ? "yes" : "no"),
              row.note.toStdString(), row.verdict.toStdString(), row.reasons.value(0).toStdString(),
              if_judged(std::string(loss_words(c.loss))), if_judged(c.steps.first), if_judged(c.steps.last),
              row.baseline ? 0.0f : c.gap, c.half_width, c.matters, if_judged(c.twins), if_judged(c.candidates),
              judged_->seedText().toStdString(), sqnr.worst_db, sqnr.mean_db, costs.flushed,
              is_forced ? kNoValue : costs.flips, is_forced ? kNoValue : figures.flip_rate, costs.gradient_error,
              figures.gradient_cosine, figures.tokens_per_s, figures.final_loss, figures.mean_loss, figures.max_vio,
              settingsOf(place).join(QStringLiteral("; ")).toStdString());
  }
  return table;
}

QString VerdictsPanel::explain() const {
  return explanation({QString::number(kMinSteps), QString::number(std::lround(100 * kMinDrift)),
                      QString::fromUtf8(kSqnrNote), QString::number(kWindow)});
}

void VerdictsPanel::chooseMatters(double share) {
  int index = matters_->findData(share);
  if (index < 0) {
    matters_->addItem(QString("%1 matters").arg(shareText(share)), share);
    index = matters_->count() - 1;
  }
  matters_->setCurrentIndex(index);
}

}  // namespace moescope
