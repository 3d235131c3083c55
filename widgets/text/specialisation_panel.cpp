#include "widgets/text/specialisation_panel.h"

#include <QPainter>
#include <QStandardItemModel>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/frame/expert_map.h"
#include "core/frame/frame.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/byte_text.h"
#include "widgets/plots/color_scale.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

QSize ByteStrip::boxSize() const {
  const QFontMetrics metrics(font());
  return {std::max(24, metrics.horizontalAdvance(QStringLiteral("00.0")) + 4), plotRect().height()};
}

void ByteStrip::paintData(QPainter& painter) {
  const QFontMetrics metrics(painter.font());
  painter.setPen(palette().text().color());
  // Leaves out the part in brackets if it does not fit.
  painter.drawText(QRect(0, 0, width(), metrics.height() + 2), Qt::AlignVCenter,
                   fittingText({title_, title_.section(QStringLiteral(" ("), 0, 0)}, metrics, width()));
  const QSize box = boxSize();
  const Lut lut = utilisationLut(dark());
  const QFont letters = scaledFont(formulaFont(font()), 1.2);
  const QFont usual = painter.font();
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    const QRect place(plotRect().left() + to_int(i) * box.width(), plotRect().top(), box.width() - 2, box.height());
    if (place.right() > plotRect().right()) break;
    const QRgb color = lut[utilisationCode(bytes_[i].lift)];
    painter.fillRect(place, color);
    painter.setPen(textOn(color));
    const int half_height = std::min(metrics.height(), place.height() / 2);
    painter.setFont(letters);
    painter.drawText(place.adjusted(0, 0, 0, -half_height), Qt::AlignCenter,
                     byteGlyph(static_cast<std::uint8_t>(bytes_[i].kind)));
    painter.setFont(usual);
    painter.drawText(place.adjusted(0, place.height() - half_height, 0, 0), Qt::AlignCenter,
                     QString::number(bytes_[i].lift, 'f', bytes_[i].lift < 9.95f ? 1 : 0));
  }
}

QStringList ByteStrip::readoutAt(QPoint position) const {
  if (!plotRect().contains(position)) return {};
  const std::size_t index = (position.x() - plotRect().left()) / boxSize().width();
  if (index >= bytes_.size()) return bytes_.empty() ? QStringList{title_} : QStringList{};
  return {QString("%1, %2 \u00d7 the expert's share of all copies")
              .arg(byteName(static_cast<std::uint8_t>(bytes_[index].kind)), formatValue(bytes_[index].lift, 3)),
          QString("%1 of the expert's copies").arg(formatPercent(bytes_[index].share))};
}

ByteAffinityView::ByteAffinityView(Selection* selection, QWidget* parent) : QWidget(parent), selection_(selection) {
  view_ = new MatrixPlot(this);
  view_->setAccessibleName("Kinds of bytes by expert");
  view_->setLegendElsewhere();
  view_->refill = [this] { refill(); };
  view_->describe = [this](int row, int column) { return describe(row, column); };
  view_->decorate = [this](QPainter& painter) { paintNumbers(painter); };
  view_->setWeights(utilisationWeights());
  view_->setHatched(kZeroLoadCode);
  strip_ = new ByteStrip(this);
  strip_->setAccessibleName("Bytes of the chosen expert");
  strip_->refill = [this] { refillStrip(); };
  followFont(strip_, [this] { strip_->setFixedHeight(moescope::withType(62, strip_->fontMetrics())); });
  for (PlotFrame* plot : std::initializer_list<PlotFrame*>{view_, strip_})
    connect(selection, &Selection::changed, plot, &PlotFrame::markDirty);
  connect(view_, &MatrixPlot::cellChosen, this, [this](int, int column) { selection_->setExpert(column); });
  auto* column = plainColumn(this, 2);
  column->addWidget(view_, 1);
  column->addWidget(strip_);
  setFocusProxy(view_);
}

void ByteAffinityView::refill() {
  const History* history = selection_->history();
  frame_.reset();
  if (!history || history->steps().empty()) return view_->setNotice(noDataYetNotice(*selection_));
  frame_ = history->specialisation_layer_at(selection_->layer(), selection_->step());
  const SpecialisationFrame* specialisation = specialisationOf(frame_.get(), selection_->layer());
  if (!specialisation || specialisation->byte_256E.empty()) {
    const bool counts_tokens =
        specialisation && !history->info().config_toml.empty();  // runs here count bytes if they read bytes
    return view_->setNotice(counts_tokens ? QString("The tokens of this run are those of a tokenizer, not bytes")
                                          : notInLogNotice(history->info(), "bytes by expert"));
  }
  view_->setNotice({});
  lift_ = byte_class_lift(*specialisation);
  std::vector<std::uint8_t> codes;
  for (const float lift : lift_) codes.push_back(is_missing(lift) ? kNoDataCode : utilisationCode(lift));
  QStringList kinds;
  for (int c = 0; c < kNumByteClasses; ++c) kinds << QString::fromLatin1(byte_class_name(static_cast<ByteClass>(c)));
  const int experts = to_int(specialisation->n_experts());
  view_->setCells(kNumByteClasses, experts, std::move(codes));
  view_->setLegend(liftLegend(isDark(palette())));
  view_->setRowAxis(ticksOf(kinds), "kind of byte");
  view_->setColumnAxis(integerTicks(0, experts - 1, std::max(2, view_->width() / 60)), "expert");
  view_->setCurrent(MatrixPlot::kAllRows, selection_->expert());
}

void ByteAffinityView::refillStrip() {
  const History* history = selection_->history();
  const auto frame = history ? history->specialisation_layer_at(selection_->layer(), selection_->step()) : nullptr;
  const SpecialisationFrame* specialisation = specialisationOf(frame.get(), selection_->layer());
  strip_->setNotice(specialisation ? QString() : QString(QLatin1Char(' ')));
  if (!specialisation) return;
  int expert = selection_->expert();
  const bool chosen = expert >= 0 && expert < to_int(specialisation->n_experts());
  if (!chosen) expert = to_int(highestLift(byte_class_lift(*specialisation)) % specialisation->n_experts());
  strip_->setBytes(chosen ? QString("Bytes of expert %1, \u00d7 its share (5 tokens or more)").arg(expert)
                          : QString("Bytes of expert %1, \u00d7 its share (the most specialised expert)").arg(expert),
                   bytes_of_expert(*specialisation, expert));
}

void ByteAffinityView::paintNumbers(QPainter& painter) const {
  view_->paintTexts(painter, view_->sizeFor(QStringLiteral("0.0")),
                    [this](int row, int column) { return liftText(lift_[row * view_->columns() + column]); });
}

QStringList ByteAffinityView::describe(int row, int column) const {
  const SpecialisationFrame* specialisation = specialisationOf(frame_.get(), selection_->layer());
  if (!specialisation) return {};
  QStringList lines{QString("%1 in expert %2: %3 \u00d7 its share of all copies")
                        .arg(QString::fromLatin1(byte_class_name(static_cast<ByteClass>(row))))
                        .arg(column)
                        .arg(formatValue(lift_[row * view_->columns() + column], 3))};
  QString favourites;
  const auto bytes = bytes_of_expert(*specialisation, column);
  for (std::size_t i = 0; i < std::min<std::size_t>(10, bytes.size()); ++i)
    favourites += byteGlyph(static_cast<std::uint8_t>(bytes[i].kind)) + QLatin1Char(' ');
  lines << QString("its bytes, most preferred first: %1").arg(favourites);
  return lines;
}

QStringList ByteAffinityView::answers() const {
  const SpecialisationFrame* specialisation = specialisationOf(frame_.get(), selection_->layer());
  if (!specialisation || !view_->notice().isEmpty() || lift_.empty()) return {};
  const std::size_t best = highestLift(lift_);
  if (is_missing(lift_[best])) return {};
  const auto expert = best % specialisation->n_experts();
  const QString kind = QString::fromLatin1(byte_class_name(static_cast<ByteClass>(best / specialisation->n_experts())));
  const QString times = formatValue(lift_[best], 2);
  return {QString("Expert %1 gets %2 \u00d7 its share of %3").arg(expert).arg(times, kind),
          QString("Expert %1: %2 \u00d7 its share of %3").arg(expert).arg(times, kind)};
}

ValueTable ByteAffinityView::table() const {
  ValueTable table({"step", "layer", "expert", "byte", "copies", "share of the expert [share]", "lift"});
  const History* history = selection_->history();
  const auto frame = history ? history->specialisation_frame_at(selection_->step()) : nullptr;
  const SpecialisationFrame* specialisation = specialisationOf(frame.get(), selection_->layer());
  for (std::size_t e = 0; specialisation && e < specialisation->n_experts(); ++e)
    for (const TokensOfExpert& byte : bytes_of_expert(*specialisation, e, 1))
      table.add(frame->step, specialisation->layer, e, byte.kind, byte.n_slots, byte.share, byte.lift);
  return table;
}

namespace {

enum Order { kById, kByDomain, kByTeam };
enum Figure { kLift, kBytes, kLossWithout, kPruning };
constexpr int kFramesBack = 20;                 // counts that are looked at for texts of two domains
constexpr std::int64_t kStepsOverTraining = 8;  // number of steps at which a run is measured
constexpr float kMinPreference = 1.3f;          // lift below which an expert hardly prefers a domain

QString nameOrNumber(const RunInfo& info, std::size_t domain) {
  return domain < info.domains.size() ? QString::fromStdString(info.domains[domain]) : QString::number(domain);
}

// Returns evenly spread steps, with the first and the last step.
std::vector<std::int64_t> stepsOverTraining(StepRange all) {
  std::vector<std::int64_t> steps;
  for (std::int64_t i = 0; i < kStepsOverTraining; ++i)
    steps.push_back(all.first + (all.last - all.first) * i / (kStepsOverTraining - 1));
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

}  // namespace

const SpecialisationFrame* specialisationOf(const TelemetryFrame* frame, int layer) {
  if (!frame) return nullptr;
  const auto found = std::ranges::find(frame->specialisation, layer, &SpecialisationFrame::layer);
  if (found != frame->specialisation.end()) return &*found;
  return frame->specialisation.size() == 1 ? &frame->specialisation.front() : nullptr;
}

std::shared_ptr<const TelemetryFrame> countsOfDomains(const Selection& selection) {
  const auto has_several = [&](const TelemetryFrame* frame) {
    const SpecialisationFrame* counts = specialisationOf(frame, selection.layer());
    const std::vector<float> share = counts ? domain_share(*counts) : std::vector<float>();
    int domains = 0;
    for (std::size_t i = 0; i < share.size(); i += counts->n_experts()) domains += int{!is_missing(share[i])};
    return domains > 1;
  };
  const auto newest = selection.history()->specialisation_layer_at(selection.layer(), selection.step());
  auto frame = newest;
  for (int i = 0; i < kFramesBack && frame && !has_several(frame.get()); ++i)
    frame = selection.history()->specialisation_layer_at(selection.layer(), frame->step - 1);
  return has_several(frame.get()) ? frame : newest;
}

int onlyCountedLayer(const Selection& selection) {
  const History* run = selection.history();
  const auto newest = run && run->info().config_toml.empty() ? run->specialisation_frame_at(INT64_MAX) : nullptr;
  return newest && newest->specialisation.size() == 1 ? newest->specialisation.front().layer : -1;
}

LegendScale liftLegend(bool dark) {
  LegendScale legend = utilisationLegend(dark);
  legend.caption = QString("\u00d7 its share");
  return legend;
}

QString liftText(float lift) {
  if (is_missing(lift) || lift == 0) return {};
  return QString::number(lift, 'f', lift < 9.95f ? 1 : 0);
}

std::size_t highestLift(const std::vector<float>& lift) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < lift.size(); ++i)
    if (!is_missing(lift[i]) && (is_missing(lift[best]) || lift[i] > lift[best])) best = i;
  return best;
}

QString domainName(const RunInfo& info, std::size_t domain) {
  return domain < info.domains.size() ? QString::fromStdString(info.domains[domain]) : QString("domain %1").arg(domain);
}

SpecialisationPanel::SpecialisationPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Specialisation", Provenance::measured_here, parent) {
  showAnswers([this] {
    const bool dark = isDark(palette());
    return removes() ? removal_.legend(dark) : liftLegend(dark);
  });
  view_ = new MatrixPlot(this);
  view_->setLegendElsewhere();
  view_->refill = [this] { refill(); };
  view_->describe = [this](int row, int column) { return describe(row, column); };
  view_->figure = [this](int row, int column) -> std::optional<FigureTarget> {
    if (removes()) return std::nullopt;
    return FigureTarget{.key = "domain_lift",
                        .layer = selection_->layer(),
                        .expert = columns_[column],
                        .other = row,
                        .step = selection_->step()};
  };
  view_->decorate = [this](QPainter& painter) { paintNumbers(painter); };
  view_->setWeights(utilisationWeights());
  view_->setHatched(kZeroLoadCode);
  followSelection(view_);
  connect(view_, &MatrixPlot::cellChosen, this, [this](int row, int column) {
    if (figure_->currentIndex() == kPruning) return;
    if (const SpecialisationFrame* shown = counts()) selection_->setLayer(shown->layer);
    selection_->setExpert(columns_[column]);
    domain_ = row;  // after the change of the expert, which ends the choice of a domain
    view_->markDirty();
  });
  connect(selection_, &Selection::focusChanged, this, [this] { domain_ = -1; });
  layer_ = new LayerCombo(selection_, this, onlyCountedLayer);
  addControl(layer_);
  figure_ = makeChoice(
      {"use by domain", "use by byte", "loss without it", "pruned models"}, "Figure",
      "Use, in the batches: share of the copies of a domain's tokens, or of a kind of byte, that go to an expert, "
      "divided by the expert's share of all copies; a token has a copy for each of its experts. Measured on request: "
      "change of the loss without one expert, by domain, and without several experts of every layer: those whose "
      "absence "
      "changes the predictions least (divergence), or with the least mixing weight times output (saliency)");
  connect(figure_, &QComboBox::currentIndexChanged, this, &SpecialisationPanel::showFigure);
  addControl(figure_);
  order_ = makeChoice({"ordered by id", "ordered by domain", "ordered by co-activation"}, "Order of experts",
                      "Order of the columns: by id, by the domain that prefers the expert most, or by co-activation");
  connect(order_, &QComboBox::currentIndexChanged, view_, &PlotFrame::markDirty);
  addControl(order_);
  bytes_ = new ByteAffinityView(selection_, this);
  stack_ = new QStackedWidget(this);
  stack_->addWidget(view_);
  stack_->addWidget(bytes_);
  addBody(stack_);
  view_->setAccessibleName(title());
  makeButtons();
  connect(selection_, &Selection::dataChanged, this, &SpecialisationPanel::showFigure);
  connect(selection_, &Selection::timeChanged, this, &SpecialisationPanel::showButtons);
  connect(selection_, &Selection::timeChanged, view_, &PlotFrame::markDirty);
  keepState("order", order_);
  showFigure();
}

void SpecialisationPanel::makeButtons() {
  measure_ =
      new MeasureButton("Runs pieces of the texts through the model once more for each expert that is left out", this);
  connect(measure_, &MeasureButton::requested, this,
          [this] { emit removalRequested(selection_->run(), {selection_->step()}); });
  connect(measure_, &MeasureButton::changed, this, &SpecialisationPanel::showFigure);
  over_training_ = new QPushButton("Measure over training", this);
  over_training_->setToolTip(QString("Trains a copy of the run and measures before %1 of its steps, from the first to "
                                     "the last; the cursor selects one of these measurements")
                                 .arg(kStepsOverTraining));
  connect(over_training_, &QPushButton::clicked, this,
          [this] { emit removalRequested(selection_->run(), stepsOverTraining(selection_->history()->steps())); });
  auto* row = new QWidget(this);
  auto* buttons = plainRow(row, kSpace8);
  for (QPushButton* button : {static_cast<QPushButton*>(measure_), over_training_}) buttons->addWidget(button);
  addBody(row, 0);
}

bool SpecialisationPanel::removes() const {
  return figure_ && figure_->currentIndex() >= kLossWithout && hasModel(*selection_);
}

void SpecialisationPanel::showFigure() {
  auto* choices = qobject_cast<QStandardItemModel*>(figure_->model());
  for (const int measured : {kLossWithout, kPruning}) choices->item(measured)->setEnabled(hasModel(*selection_));
  order_->setVisible(!removes() && !byBytes());
  layer_->setVisible(!removes() || figure_->currentIndex() != kPruning);  // pruned models lack experts of all layers
  stack_->setCurrentWidget(byBytes() ? static_cast<QWidget*>(bytes_) : view_);
  giveFocusTo(stack_->currentWidget());
  showButtons();
  view_->markDirty();
  update();
}

void SpecialisationPanel::showButtons() {
  const bool done = measured() && isStepOfCursor(measured()->first, *selection_);
  measure_->setVisible(removes() && (measure_->busy() || !done));
  over_training_->setVisible(removes() && !measure_->busy() &&
                             run_origin(selection_->history()->info()) == RunOrigin::training);
}

void SpecialisationPanel::showExperts(std::shared_ptr<const MeasuredExperts> measured) {
  measured_ = std::move(measured);
  measure_->showDone();
}

void SpecialisationPanel::refillRemoval() {
  const auto* measured = this->measured();
  removal_ = {};
  if (!measured)
    return view_->setNotice(measure_->busy() ? measure_->progress()
                                             : QString("Not measured at this step: \"Measure\" below runs pieces of "
                                                       "the texts once more without each expert"));
  const bool pruning = figure_->currentIndex() == kPruning;
  removal_ = pruning ? prunedModels(measured->second) : costsByDomain(measured->second, selection_->layer());
  if (removal_.columns.isEmpty())
    return view_->setNotice("No expert can be removed: every token needs nearly all of them");
  view_->setNotice({});
  columns_.resize(removal_.columns.size());
  std::iota(columns_.begin(), columns_.end(), 0);
  view_->setCells(to_int(removal_.rows.size()), to_int(removal_.columns.size()), removal_.codes());
  view_->setLegend(removal_.legend(isDark(palette())));
  view_->setRowAxis(ticksOf(removal_.rows), removal_.row_title);
  view_->setColumnAxis(ticksOf(removal_.columns), removal_.column_title);
  const int expert = pruning ? -1 : selection_->expert();
  view_->setCurrent(chosenRow(), expert);
}

QStringList SpecialisationPanel::describeRemoval(int row, int column) const {
  const FigureOfPieces& figure = removal_.cell(row, column);
  const QString loss =
      std::isnan(figure.mean) ? QString("not measured") : QString("loss %1 nats/token").arg(lossChangeText(figure));
  if (figure_->currentIndex() == kPruning)
    return {QString("%1 experts of every layer removed, %2").arg(removal_.columns[column], removal_.rows[row]), loss};
  const ExpertCost* cost = measured() ? measured()->second.find(selection_->layer(), column) : nullptr;
  if (!cost) return {};
  return {QString("%1 without expert %2 of layer %3").arg(removal_.rows[row]).arg(column).arg(cost->layer), loss,
          QString("load %1 of a fair share, saliency %2")
              .arg(formatValue(static_cast<float>(cost->load), 3), formatValue(static_cast<float>(cost->saliency), 3)),
          QString("divergence %1 nats/token").arg(inPrint(QString::number(cost->divergence.mean, 'g', 3)))};
}

Panel::Answer SpecialisationPanel::answerOfRemoval() const {
  if (measure_->busy()) return {{}, {measure_->progress()}};
  if (!measure_->refused().isEmpty()) return {{}, {measure_->refused()}, true};
  if (!measured()) return {};
  if (figure_->currentIndex() == kPruning)
    return {"How many experts can be removed?", pruningAnswers(measured()->second)};
  return {"Which expert can be removed?", costAnswers(measured()->second)};
}

bool SpecialisationPanel::byBytes() const {
  return figure_->currentIndex() == kBytes;
}

const SpecialisationFrame* SpecialisationPanel::counts() const {
  return specialisationOf(frame_.get(), selection_->layer());
}

std::vector<int> SpecialisationPanel::columnOrder(const SpecialisationFrame& table,
                                                  const std::vector<float>& lift) const {
  const int experts = to_int(table.n_experts());
  if (order_->currentIndex() == kByTeam && !table.together_EE.empty())
    return coactivation_order(table.together_EE, experts);
  std::vector<int> order(experts);
  std::iota(order.begin(), order.end(), 0);
  if (order_->currentIndex() == kById) return order;
  const auto favourite = [&](int e) {
    std::size_t best = 0;
    for (std::size_t d = 0; d * table.n_experts() < lift.size(); ++d) {
      const auto at = [&](std::size_t row) { return lift[row * table.n_experts() + e]; };
      if (!is_missing(at(d)) && (is_missing(at(best)) || at(d) > at(best))) best = d;
    }
    return std::pair(best, -lift[best * table.n_experts() + e]);
  };
  std::ranges::stable_sort(order, {}, favourite);
  return order;
}

// Names the domains whose tokens are counted in the frame.
QStringList SpecialisationPanel::countedDomains() const {
  QStringList domains;
  const SpecialisationFrame* table = counts();
  const std::vector<float> share = table ? domain_share(*table) : std::vector<float>();
  for (std::size_t i = 0; i < share.size(); i += table->n_experts())
    if (!is_missing(share[i])) domains << domainName(selection_->history()->info(), i / table->n_experts());
  return domains;
}

// Finds the newest counts of two domains or more; without such, the newest. Sets what is to be said about newer counts.
void SpecialisationPanel::findCounts() {
  const auto newest = frame_ = selection_->history()->specialisation_layer_at(selection_->layer(), selection_->step());
  const QStringList domains = countedDomains();
  frame_ = countsOfDomains(*selection_);
  one_domain_.clear();
  if (frame_ && frame_->step != newest->step)
    one_domain_ = QString("%1 %2 counted only %3")
                      .arg(selection_->stepWord(), formatCount(newest->step), domains.join(QString()));
}

void SpecialisationPanel::refill() {
  const History* history = selection_->history();
  frame_.reset();
  if (!hasSteps(view_)) return;
  if (removes()) return refillRemoval();
  findCounts();
  const SpecialisationFrame* specialisation = counts();
  if (!specialisation || specialisation->domain_DE.empty())
    return view_->setNotice(notInLogNotice(history->info(), "domains by expert"));
  lift_ = domain_lift(*specialisation);
  share_ = domain_share(*specialisation);
  const QStringList domains_counted = countedDomains();
  view_->setNotice(domains_counted.size() > 1 ? QString()
                                              : QString("Specialisation compares texts of two domains or more. Counted "
                                                        "up to here: %1")
                                                    .arg(domains_counted.value(0, "none")));
  if (!view_->notice().isEmpty()) return;
  base_ = expert_share(*specialisation);
  columns_ = columnOrder(*specialisation, lift_);
  const int experts = to_int(specialisation->n_experts());
  const auto domains = to_int(lift_.size()) / experts;
  std::vector<std::uint8_t> codes;
  QStringList names;
  for (int d = 0; d < domains; ++d) {
    names << nameOrNumber(history->info(), d);
    for (const int e : columns_) {
      const float lift = lift_[d * experts + e];
      codes.push_back(is_missing(lift) ? kNoDataCode : utilisationCode(lift));
    }
  }
  view_->setCells(domains, experts, std::move(codes));
  view_->setLegend(liftLegend(isDark(palette())));
  view_->setRowAxis(ticksOf(names), "domain of the text");
  view_->setColumnAxis(ticksOf(columns_), "expert");
  view_->setCurrent(chosenRow(), index_in(columns_, selection_->expert()));
}

void SpecialisationPanel::paintNumbers(QPainter& painter) const {
  if (removes()) {
    if (removal_.cells.empty()) return;
    return view_->paintTexts(painter, view_->sizeFor(QStringLiteral("-0.0000")), [this](int row, int column) {
      const double change = removal_.cell(row, column).mean;
      return std::isnan(change) ? QString() : inPrint(QString::number(change, 'f', 4));
    });
  }
  view_->paintTexts(painter, view_->sizeFor(QStringLiteral("0.0")),
                    [this](int row, int column) { return liftText(lift_[row * view_->columns() + columns_[column]]); });
}

// The domain that was clicked with the expert; all rows if the expert was chosen elsewhere.
int SpecialisationPanel::chosenRow() const {
  return domain_ < 0 ? MatrixPlot::kAllRows : std::min(domain_, view_->rows() - 1);
}

QStringList SpecialisationPanel::describe(int row, int column) const {
  if (removes()) return removal_.cells.empty() ? QStringList() : describeRemoval(row, column);
  const SpecialisationFrame* specialisation = counts();
  if (!specialisation) return {};
  const std::string domain = nameOrNumber(selection_->history()->info(), row).toStdString();
  return readout({frame_->step, std::int64_t{specialisation->layer}, domain, std::int64_t{columns_[column]}});
}

Panel::Answer SpecialisationPanel::answer() const {
  if (removes()) return answerOfRemoval();
  if (byBytes()) return answerTo("Which expert gets which bytes?", bytes_->answers());
  const SpecialisationFrame* specialisation = counts();
  if (!specialisation || !view_->notice().isEmpty() || lift_.empty()) return {};
  const std::size_t experts = specialisation->n_experts();
  const bool is_of_one = selection_->expert() >= 0 && selection_->expert() < to_int(experts);
  std::size_t best = is_of_one ? selection_->expert() : highestLift(lift_);
  for (std::size_t i = best; is_of_one && i < lift_.size(); i += experts)
    if (!is_missing(lift_[i]) && (is_missing(lift_[best]) || lift_[i] > lift_[best])) best = i;
  if (is_of_one && domain_ >= 0 && domain_ < view_->rows()) best = domain_ * experts + selection_->expert();
  if (is_missing(lift_[best])) return {};
  const QString times = formatValue(lift_[best], 2),
                question = is_of_one ? QString("What does this expert get?") : QString("Do experts specialise?");
  if (frame_)
    if (const QStringList forced = forcedAnswer(*selection_, frame_->step); !forced.isEmpty())
      return {question, forced};
  const QString domain = domainName(selection_->history()->info(), best / experts);
  const std::size_t expert = best % experts;
  if (!is_of_one && lift_[best] < kMinPreference)
    return {question,
            {QString("No: at most %1 \u00d7 its share of %2").arg(times, domain),
             QString("None above %1 \u00d7").arg(times)}};
  return {question,
          {QString("Expert %1 gets %2 of the copies of %3 and %4 of all: %5 \u00d7 its share")
               .arg(expert)
               .arg(formatPercent(share_[best]), domain, formatPercent(base_[expert]), times),
           QString("Expert %1 gets %2 \u00d7 its share of %3").arg(expert).arg(times, domain),
           QString("Expert %1: %2 \u00d7 its share of %3").arg(expert).arg(times, domain)}};
}

QString SpecialisationPanel::status() const {
  if (removes())
    return measured() ? measuredText(*selection_, measured()->second.pieces, measured()->first) : QString();
  const TelemetryFrame* frame = byBytes() ? bytes_->frame() : frame_.get();
  QStringList parts{frame ? timeStatus(frame->step, false) + ", batches" : QString()};
  if (!byBytes() && !one_domain_.isEmpty()) parts << one_domain_;
  return parts.join(", ");
}

ValueTable SpecialisationPanel::table() const {
  if (byBytes()) return bytes_->table();
  if (removes()) {
    const MeasuredExperts::ByStep scans = measured() ? measured_->by_step : MeasuredExperts::ByStep();
    return figure_->currentIndex() == kPruning ? pruningTable(scans) : costsTable(scans);
  }
  ValueTable table({"step", "layer", "domain", "expert", "copies", "share of the domain's copies [share]",
                    "share of all copies [share]", "lift:3"});
  const History* history = selection_->history();
  const auto frame = history ? history->specialisation_frame_at(selection_->step()) : nullptr;
  for (const SpecialisationFrame& layer : frame ? frame->specialisation : std::vector<SpecialisationFrame>{}) {
    const std::vector<float> lift = domain_lift(layer), share = domain_share(layer), base = expert_share(layer);
    for (std::size_t i = 0; i < lift.size(); ++i) {
      const std::size_t expert = i % layer.n_experts();
      table.add(frame->step, layer.layer, nameOrNumber(history->info(), i / layer.n_experts()).toStdString(), expert,
                layer.domain_DE[i], share[i], base[expert], lift[i]);
    }
  }
  return table;
}

}  // namespace moescope
