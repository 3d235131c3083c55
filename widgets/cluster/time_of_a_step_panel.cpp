#include "widgets/cluster/time_of_a_step_panel.h"

#include <QEvent>
#include <QGridLayout>
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "core/telemetry/frame/kernel_names.h"
#include "widgets/cluster/published_and_modelled_panel.h"
#include "widgets/panel/metric_text.h"

namespace moescope {
namespace {

using Fill = BandBars::Fill;
constexpr int kComputeColor = 0, kNetworkColor = 1, kRestColor = 3;
constexpr int kFewestInRow = 3, kMostInRow = 4;
constexpr int kBetweenLoadsMs = 1000;  // between the loads of two steps of a training

bool isCommunication(const StepPart& part) {
  const std::string_view name = part.name;
  return name.starts_with("all-to-all") || name == "DeepEP overhead" || name == "tensor parallelism";
}

int colorOf(const StepPart& part) {
  const std::string_view name = part.name;
  if (isCommunication(part)) return kNetworkColor;
  return name == "rest" || name == "uneven stages" || name == "pipeline bubble" ? kRestColor : kComputeColor;
}

}  // namespace

// Names beside their fields, as many in a row as are read whole.
class TimeOfAStepPanel::ChoiceGrid : public QWidget {
 public:
  explicit ChoiceGrid(QWidget* parent) : QWidget(parent) {
    grid_ = new QGridLayout(this);
    grid_->setContentsMargins(4, 0, 4, 0);
    grid_->setHorizontalSpacing(5);
    grid_->setVerticalSpacing(2);
  }
  void add(QLabel* name, QWidget* field) { choices_.push_back({name, field}); }
  void arrange() {
    const int in_row = leastWidth(kMostInRow) <= width() ? kMostInRow : kFewestInRow;
    if (std::exchange(in_row_, in_row) == in_row) return;
    for (const auto& [name, field] : choices_)
      for (QWidget* widget : {static_cast<QWidget*>(name), field}) grid_->removeWidget(widget);
    for (int i = 0; i < static_cast<int>(choices_.size()); ++i) {
      const auto& [name, field] = choices_[static_cast<std::size_t>(i)];
      grid_->addWidget(name, i / in_row, 2 * (i % in_row));
      grid_->addWidget(field, i / in_row, 2 * (i % in_row) + 1);
    }
    for (int i = 0; i < kMostInRow; ++i) grid_->setColumnStretch(2 * i + 1, i < in_row ? 1 : 0);
  }

 protected:
  bool event(QEvent* event) override {
    if (event->type() == QEvent::LayoutRequest || event->type() == QEvent::Resize) arrange();
    return QWidget::event(event);
  }

 private:
  // With all names whole; fields may be a little narrower than they like.
  int leastWidth(int in_row) const {
    constexpr int kSpared = 8;
    std::vector<int> names(static_cast<std::size_t>(in_row)), fields = names;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      int &name = names[i % names.size()], &field = fields[i % names.size()];
      name = std::max(name, choices_[i].name->sizeHint().width());
      field = std::max(field, choices_[i].field->minimumSizeHint().width() - kSpared);
    }
    return std::accumulate(names.begin(), names.end(), 0) + std::accumulate(fields.begin(), fields.end(), 0) +
           2 * in_row * grid_->horizontalSpacing();
  }

  struct Choice {
    QLabel* name;
    QWidget* field;
  };
  std::vector<Choice> choices_;
  QGridLayout* grid_;
  int in_row_ = 0;
};

TimeOfAStepPanel::TimeOfAStepPanel(Selection* selection, QWidget* parent)
    : Panel(selection, tr("Time of a step"), Provenance::modelled, parent) {
  buildChoices();
  headline_ = new QLabel(this);
  headline_->setTextFormat(Qt::RichText);
  headline_->setWordWrap(true);
  addBody(headline_, 0);
  plot_ = new BandBars(this);
  plot_->setCaption(tr("ms per token and GPU"));
  plot_->setFormatter([](double value) { return formatValue(value, 2); });
  plot_->setLegend({{tr("compute"), kComputeColor, Fill::solid, false},
                    {tr("communication"), kNetworkColor, Fill::solid, false},
                    {tr("rest and pipeline"), kRestColor, Fill::solid, false},
                    {tr("hatched: holds a fitted number"), kNetworkColor, Fill::hatched, false}});
  plot_->refill = [this] { refill(); };
  plot_->describe = [this](int row) { return describe(row); };
  for (auto signal : {&Selection::dataChanged, &Selection::timeChanged, &Selection::focusChanged})
    connect(selection_, signal, this, [this] {
      if (is_live(static_cast<AskedRouting>(routing_->currentIndex()))) plot_->markDirty();
    });
  pause_.setSingleShot(true);
  pause_.setInterval(kBetweenLoadsMs);
  connect(&pause_, &QTimer::timeout, plot_, &PlotFrame::markDirty);
  addBody(plot_);
  chosen();
}

QComboBox* TimeOfAStepPanel::addChoice(ChoiceGrid* grid, const QString& name, const QStringList& items,
                                       const QString& tip) {
  auto* box = new QComboBox(this);
  box->addItems(items);
  box->setAccessibleName(name);
  box->setToolTip(tip);
  box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  box->setMinimumContentsLength(4);
  auto* label = new QLabel(name, this);
  label->setBuddy(box);
  grid->add(label, box);
  connect(box, &QComboBox::currentIndexChanged, this, [this] { chosen(); });
  return box;
}

void TimeOfAStepPanel::buildChoices() {
  auto* grid = new ChoiceGrid(this);
  QStringList models, profiles;
  for (const ModelShape& shape : model_shapes()) models << QString::fromStdString(shape.name);
  for (const HardwareProfile& profile : hardware_profiles()) profiles << QString::fromStdString(profile.name);
  model_ = addChoice(grid, tr("Model"), models, tr("Published shape, on 256 GPUs"));
  hardware_ = addChoice(grid, tr("GPU"), profiles, tr("Hardware profile: assets/hardware"));
  recipe_ = addChoice(grid, tr("Experts"), {tr("BF16"), tr("MXFP8")}, tr("Grouped GEMMs of the routed experts"));
  way_ = addChoice(grid, tr("Way"), {tr("standard"), tr("DeepEP")}, tr("Kind of all-to-all"));
  payload_ =
      addChoice(grid, tr("Payload"), {tr("BF16"), tr("FP8"), tr("MXFP8")}, tr("Format of the rows in the all-to-all"));
  latent_ = addChoice(grid, tr("Rows"), {tr("D"), tr("D/2"), tr("D/4")},
                      tr("Values of a dispatched row\n"
                         "D: the model's width, as in DeepSeek-V3\n"
                         "D/2, D/4: latent experts as in Kimi K3 and Nemotron 3 Super: bytes, expert weights and\n"
                         "expert FLOPs shrink; two projections a token and layer are added to the other GEMMs"));
  ep_ = addChoice(grid, tr("EP"), {"8", "16", "32", "64", "128", "256"}, tr("Expert-parallel ranks, in nodes of 8"));
  routing_ =
      addChoice(grid, tr("Routing"),
                {tr("forced"), tr("uniform"), tr("grouped"), tr("Zipf"), tr("this router"), tr("this, node-limited")},
                tr("forced: round-robin, as in the published runs\n"
                   "uniform: all experts alike\n"
                   "grouped: 4 of 8 groups\n"
                   "Zipf: experts of unequal popularity\n"
                   "this router: the load of the chosen layer and step, stretched to the model's experts\n"
                   "node-limited: its tokens stay within 4 of 8 groups"));
  placement_ = addChoice(grid, tr("Placement"), {tr("in order"), tr("random"), tr("balanced")},
                         tr("balanced: replicate the heaviest and pack, one more slot a rank"));
  recompute_ = addChoice(grid, tr("Recompute"), {tr("none"), tr("selective"), tr("full")},
                         tr("selective keeps the results of the all-to-all"));
  hypothesis_ = addChoice(grid, tr("Reading"), {}, {});
  fillHypotheses(hypothesis_);
  for (int h = 0; h < hypothesis_->count(); ++h) hypothesis_->setItemText(h, hypothesis_->itemText(h).left(2));  // room
  zipf_ = new QDoubleSpinBox(this);
  zipf_->setRange(0, 2);
  zipf_->setSingleStep(0.1);
  zipf_->setValue(ClusterQuestion().zipf_exponent);
  zipf_->setAccessibleName(tr("Zipf exponent"));
  grid->add(new QLabel(tr("Zipf s"), this), zipf_);
  connect(zipf_, &QDoubleSpinBox::valueChanged, this, [this] { chosen(); });
  overlap_ = new QSlider(Qt::Horizontal, this);
  overlap_->setRange(0, 100);
  overlap_->setAccessibleName(tr("Overlap"));
  overlap_->setToolTip(tr("Share of the all-to-all hidden behind compute; the published runs have none"));
  overlap_text_ = new QLabel(this);
  grid->add(overlap_text_, overlap_);
  connect(overlap_, &QSlider::valueChanged, this, [this] { chosen(); });
  grid->arrange();
  addBody(grid, 0);
  setQuestion({});
}

ClusterQuestion TimeOfAStepPanel::question() const {
  ClusterQuestion q;
  q.model = model_->currentText().toStdString();
  q.hardware = hardware_->currentText().toStdString();
  q.mxfp8 = recipe_->currentIndex() == 1;
  q.way = static_cast<AllToAll>(way_->currentIndex());
  q.payload = static_cast<Payload>(payload_->currentIndex());
  q.latent_part = 1 << latent_->currentIndex();
  q.ep = ep_->currentText().toInt();
  q.routing = static_cast<AskedRouting>(routing_->currentIndex());
  q.zipf_exponent = zipf_->value();
  q.placement = static_cast<AskedPlacement>(placement_->currentIndex());
  q.recompute = static_cast<Recompute>(recompute_->currentIndex());
  q.overlap = overlap_->value() / 100.0;
  q.hypothesis = static_cast<Hypothesis>(hypothesis_->currentIndex());
  if (!is_live(q.routing)) return q;
  if (const auto frame = selection_->frame()) {
    const auto router = std::ranges::find(frame->routers, selection_->layer(), &RouterFrame::layer);
    if (router != frame->routers.end()) q.live_load = router->tokens_per_expert;
  }
  return q;
}

void TimeOfAStepPanel::setQuestion(const ClusterQuestion& q) {
  const auto setText = [](QComboBox* box, const std::string& text) {
    const int place = box->findText(QString::fromStdString(text), Qt::MatchFixedString);
    if (place >= 0) box->setCurrentIndex(place);
  };
  setText(model_, q.model);
  setText(hardware_, q.hardware);
  recipe_->setCurrentIndex(q.mxfp8 ? 1 : 0);
  way_->setCurrentIndex(static_cast<int>(q.way));
  payload_->setCurrentIndex(static_cast<int>(q.payload));
  latent_->setCurrentIndex(std::countr_zero(static_cast<unsigned>(q.latent_part)));
  setText(ep_, std::to_string(q.ep));
  routing_->setCurrentIndex(static_cast<int>(q.routing));
  zipf_->setValue(q.zipf_exponent);
  placement_->setCurrentIndex(static_cast<int>(q.placement));
  recompute_->setCurrentIndex(static_cast<int>(q.recompute));
  overlap_->setValue(static_cast<int>(std::lround(100 * q.overlap)));
  setHypothesis(q.hypothesis);
}

void TimeOfAStepPanel::setHypothesis(Hypothesis hypothesis) {
  hypothesis_->setCurrentIndex(static_cast<int>(hypothesis));
}

void TimeOfAStepPanel::chosen() {
  if (!headline_) return;  // still being built
  zipf_->setEnabled(routing_->currentIndex() == static_cast<int>(AskedRouting::zipf));
  overlap_text_->setText(tr("Overlap %1 %").arg(overlap_->value()));
  plot_->markDirty();
}

void TimeOfAStepPanel::refill() {
  const ClusterQuestion now = question();
  ClusterQuestion of_this_load = asked_.value_or(now);
  of_this_load.live_load = now.live_load;
  if (asked_ != now) setProperty("busy", true);
  if (asked_ != now && (of_this_load != now || !pause_.isActive())) {
    asked_ = now;
    ask();
  }
  if (!answer_) return plot_->setNotice(tr("Being computed"));
  plot_->setNotice(QString::fromStdString(answer_->problem));
}

void TimeOfAStepPanel::ask() {
  pause_.start();
  worker_.start([this, asked = *asked_](std::stop_token stopped) {
    ClusterAnswer result = moescope::answer(asked);
    if (stopped.stop_requested()) return;
    QMetaObject::invokeMethod(
        this, [this, result = std::move(result)] { show(result); }, Qt::QueuedConnection);
  });
}

void TimeOfAStepPanel::show(const ClusterAnswer& answer) {
  answer_ = answer;
  setProperty("busy", false);
  std::vector<BandBars::Row> rows;
  for (const StepPart& part : answer.time.parts) {
    rows.push_back({tr(part.name),
                    {{part.ms, colorOf(part), part.fitted.empty() ? Fill::solid : Fill::hatched}},
                    std::nan(""),
                    std::nan(""),
                    tr("%1 ms, %2, %3")
                        .arg(formatValue(part.ms, 3), formatPercent(part.ms / answer.time.ms_per_token),
                             QString::fromUtf8(provenance_name(part.kind))),
                    false});
  }
  plot_->setRows(std::move(rows));
  if (answer.problem.empty())
    headline_->setText(tr("<b>%1 tokens/s/GPU</b>, band %2-%3 (modelled, with fitted numbers); %4 ms/token. Network %5 "
                          "a token, NVLink %6 "
                          "(counted); fullest rank %7 x the mean.")
                           .arg(QString::number(answer.time.tokens_per_second, 'f', 0),
                                QString::number(answer.band.low, 'f', 0), QString::number(answer.band.high, 'f', 0),
                                formatValue(answer.time.ms_per_token, 4), formatBytes(answer.time.network_bytes),
                                formatBytes(answer.time.nvlink_bytes),
                                formatValue(answer.config.traffic.expert_rows_max_over_mean, 3)) +
                       unitsOfRun());
  else
    headline_->setText(QString::fromStdString(answer.problem).toHtmlEscaped());
  plot_->markDirty();
  emit answerChanged();
}

// Where the load is that of the open run: what multiplied its matrices, as its recording says.
QString TimeOfAStepPanel::unitsOfRun() const {
  if (!is_live(asked_->routing) || !selection_->history()) return {};
  const std::string units = multiplied_by(selection_->history()->info());
  return units.empty() ? QString() : tr(" The run's GEMMs: %1.").arg(QString::fromStdString(units).toHtmlEscaped());
}

QStringList TimeOfAStepPanel::describe(int row) const {
  if (!answer_ || row < 0 || row >= static_cast<int>(answer_->time.parts.size())) return {};
  const StepPart& part = answer_->time.parts[static_cast<std::size_t>(row)];
  QStringList lines{tr("%1: %2 ms per token and GPU").arg(QString::fromUtf8(part.name), formatValue(part.ms, 4)),
                    tr("%1: %2").arg(QString::fromUtf8(provenance_name(part.kind)), QString::fromStdString(part.how))};
  if (!part.fitted.empty()) lines << tr("holds fitted: %1").arg(QString::fromStdString(part.fitted));
  return lines;
}

QString TimeOfAStepPanel::status() const {
  if (!is_live(static_cast<AskedRouting>(routing_->currentIndex()))) return {};
  const auto frame = selection_->frame();
  return frame ? tr("load of layer %1, %2").arg(selection_->layer()).arg(timeStatus(frame->step, true)) : QString();
}

QString TimeOfAStepPanel::csv() const {
  QString text = QStringLiteral("part,time [ms per token and GPU],share,kind,fitted numbers in it,how\n");
  if (!answer_) return text;
  for (const StepPart& part : answer_->time.parts)
    text += QStringLiteral("%1,%2,%3,%4,\"%5\",\"%6\"\n")
                .arg(QString::fromUtf8(part.name))
                .arg(part.ms, 0, 'g', 7)
                .arg(part.ms / answer_->time.ms_per_token, 0, 'g', 7)
                .arg(QString::fromUtf8(provenance_name(part.kind)), QString::fromStdString(part.fitted),
                     QString::fromStdString(part.how).replace(QLatin1Char('"'), QLatin1Char('\'')));
  text += QStringLiteral("tokens/s/GPU,%1,,modelled,\"%2\",\"band %3 to %4\"\n")
              .arg(answer_->time.tokens_per_second, 0, 'f', 2)
              .arg(QString::fromStdString(answer_->time.fitted()))
              .arg(answer_->band.low, 0, 'f', 2)
              .arg(answer_->band.high, 0, 'f', 2);
  return text;
}

QString TimeOfAStepPanel::explain() const {
  return tr("<p><b>The time of one training step, as a sum of stated parts</b>, per token and GPU:</p><p><code>t = [ "
            "routed FLOPs x fullest rank / rate + other GEMMs + attention + (1 - overlap) x all-to-all + tensor "
            "parallelism + rest ] x pipeline</code>, tokens/s/GPU = 1 / t.</p><p>Bytes and FLOPs are counted from the "
            "model's shape and the routing; rates are those of the hardware profile. <i>Hatched</i>: the part holds a "
            "fitted number. Fitted are the network rate of the standard all-to-all, the MXFP8 speed-up and the rest, "
            "to the three published B200 runs, and on H100 and H200 the slow-down of GEMMs back to back, to layers "
            "measured on H200s. Point at a bar to see how it was computed and which fitted numbers it contains. The "
            "fullest rank sets the pace of experts and all-to-all.</p><p><i>uneven stages</i>: 61 layers, embedding "
            "and head do not divide into the pipeline's stages, so one rank has more work than the others. <i>pipeline "
            "bubble</i>: waiting at the beginning and the end of a step; both from the schedule, simulated operation "
            "by operation.</p><p><i>Rows</i>: latent experts work on D/2 (Kimi K3) or D/4 (Nemotron 3 Super) values of "
            "a token: all-to-all and routed FLOPs shrink, 4 D Dl FLOPs a token and layer are added for the projections "
            "(as in Megatron-LM, moe_latent_size). No published run of this model has them.</p><p><i>this router</i> "
            "uses the imbalance of this session's layer, stretched to the "
            "model's experts: only that is %1, the cost is modelled.</p>")
      .arg(measuredWhere(selection_->history()));
}

QVariantMap TimeOfAStepPanel::saveState() const {
  QVariantMap state;
  for (const QComboBox* box :
       {model_, hardware_, recipe_, way_, payload_, latent_, ep_, routing_, placement_, recompute_, hypothesis_})
    state[box->accessibleName()] = box->currentIndex();
  state[QStringLiteral("zipf")] = zipf_->value();
  state[QStringLiteral("overlap")] = overlap_->value();
  return state;
}

void TimeOfAStepPanel::restoreState(const QVariantMap& state) {
  for (QComboBox* box :
       {model_, hardware_, recipe_, way_, payload_, latent_, ep_, routing_, placement_, recompute_, hypothesis_}) {
    const int place = state.value(box->accessibleName(), box->currentIndex()).toInt();
    if (place >= 0 && place < box->count()) box->setCurrentIndex(place);
  }
  zipf_->setValue(state.value(QStringLiteral("zipf"), zipf_->value()).toDouble());
  overlap_->setValue(state.value(QStringLiteral("overlap"), overlap_->value()).toInt());
}

}  // namespace moescope
