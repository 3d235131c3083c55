#include "widgets/overview/findings_panel.h"

#include <QApplication>
#include <QClipboard>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QScrollBar>
#include <algorithm>
#include <tuple>

#include "core/config/config_field.h"
#include "core/files/text/words.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/setting_labels.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/overview/sentence_links.h"
#include "widgets/panel/controls.h"
#include "widgets/panel/tensor_text.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

namespace {

constexpr std::size_t kMinGroup = 3;  // layers with a common row
constexpr int kFirstRows = 24;        // rows at most without a click on "more", of which those that fit are shown

QString severityText(const Finding& finding) {
  const QString name = QString::fromUtf8(severity_name(finding.severity));
  return finding.ongoing ? name : QString("%1, over").arg(name);
}

}  // namespace

QStringList findingSteps(const Finding& finding) {
  const QString first = QString::fromStdString(grouped(finding.steps.first));
  if (finding.ongoing) return {QString("start: step %1").arg(first), QString("start: %1").arg(first)};
  if (finding.steps.size() == 1) return {QString("step %1").arg(first), first};
  const QString last = QString::fromStdString(grouped(finding.steps.last));
  return {QString("steps %1 to %2").arg(first, last), QString("%1 to %2").arg(first, last)};
}

namespace {

// The finding of a row that stands for several layers: "3 layers have collapsed: 1, 2 and 3", since the first.
Finding merged(const std::vector<const Finding*>& group) {
  Finding finding = *group.front();
  if (group.size() == 1) return finding;
  std::vector<int> layers;
  for (const Finding* other : group) {
    layers.push_back(other->layers.front());
    finding.steps.first = std::min(finding.steps.first, other->steps.first);
    finding.steps.last = std::max(finding.steps.last, other->steps.last);
  }
  std::ranges::sort(layers);
  finding.title = counted(std::ssize(layers), "layer", "layers") + ' ' + finding_kind_info(finding.kind).layers_phrase +
                  ": " + listed(layers);
  return finding;
}

QString wordsText(const Finding& finding, bool all_experts) {
  const auto printed = [](const std::string& text) { return withSettingLabels(printedText(text)); };
  return withExpertLinks(printed(finding.observation), finding.experts, all_experts) + QLatin1Char(' ') +
         printed(finding.meaning).toHtmlEscaped();
}

}  // namespace

QColor severityColor(Severity severity, bool dark) {
  switch (severity) {
    case Severity::severe:
      return QColor(colors(dark).bad);
    case Severity::warning:
      return QColor(colors(dark).attention);
    case Severity::note:
      break;
  }
  return QColor(colors(dark).ink2);
}

Sign signOf(const Finding& finding) {
  if (!finding.ongoing) return Sign::over;
  if (finding.severity == Severity::note) return Sign::note;
  return finding.severity == Severity::severe ? Sign::bad : Sign::attention;
}

FindingRow::FindingRow(const Finding& finding, QWidget* parent) : QFrame(parent), finding_(finding) {
  setFrameShape(QFrame::NoFrame);
  setCursor(Qt::PointingHandCursor);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(kSpace8, kSpace4, kSpace8, kSpace4);
  column->setSpacing(kSpace4);
  addLine();
  addDetails();
  followFont(this, [this] {
    const QFont small = typeFont(Type::secondary);
    words_->setFont(small);
    stated_->setFont(small);
    steps_->setFont(small);
  });
}

void FindingRow::addLine() {
  auto* line = new QHBoxLayout;
  line->setSpacing(kSpace8);
  sign_ = new SignLabel(this);
  title_ = new QLabel(this);
  title_->setWordWrap(true);
  title_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  steps_ = new FittedLabel(this);
  steps_->setRole(QPalette::PlaceholderText);
  steps_->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
  line->addWidget(sign_, 0, Qt::AlignTop);
  line->addWidget(title_, 1);
  line->addWidget(steps_, 0, Qt::AlignTop);
  layout()->addItem(line);
}

void FindingRow::addDetails() {
  details_ = new QWidget(this);
  auto* inner = new QVBoxLayout(details_);
  inner->setContentsMargins(kMarkSize + kSpace8, 0, 0, kSpace8);
  inner->setSpacing(kSpace8);
  words_ = new QLabel(details_);
  words_->setWordWrap(true);
  words_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::LinksAccessibleByMouse |
                                  Qt::LinksAccessibleByKeyboard);
  words_->setObjectName("words");
  connect(words_, &QLabel::linkActivated, this, &FindingRow::follow);
  inner->addWidget(words_);
  stated_ = new QLabel(details_);
  stated_->setWordWrap(true);
  stated_->setTextFormat(Qt::PlainText);
  stated_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  stated_->setObjectName("stated");
  inner->addWidget(stated_);
  auto* row = new QWidget(details_);
  auto* buttons = new FlowRow(row);
  for (const OperandElement& element : finding_.operands) {
    auto* button = new QPushButton(QString("Open %1").arg(tensorName(element.place)), row);
    button->setToolTip(QString("Computes %1 of that step again and shows the place in the block microscope")
                           .arg(placeName(element.place)));
    connect(button, &QPushButton::clicked, this, [this, element] { emit elementOpened(element); });
    buttons->addWidget(button);
  }
  for (const Setting knob : finding_.knobs) {
    const QString key = QString::fromStdString(knob.key());
    auto* button = new QPushButton(QString::fromStdString(knob.field().label), row);
    button->setObjectName(key);
    button->setToolTip(QString("Goes to the setting %1, which affects this finding").arg(key));
    connect(button, &QPushButton::clicked, this, [this, key] { emit knobRequested(key); });
    buttons->addWidget(button);
    knobs_ << button;
  }
  mute_ = new QPushButton("Mute", row);
  mute_->setCheckable(true);
  mute_->setFlat(true);
  mute_->setToolTip("Do not list or count this finding until the window is closed");
  connect(mute_, &QPushButton::clicked, this, &FindingRow::muteRequested);
  buttons->addWidget(mute_);
  inner->addWidget(row);
  layout()->addWidget(details_);
}

void FindingRow::show(const Finding& finding, const QString& run, bool muted, bool open) {
  finding_ = finding;
  sign_->setSign(signOf(finding));
  sign_->setToolTip(severityText(finding));
  const QString title = QString::fromStdString(finding.title);
  const QString shown = (run.isEmpty() ? QString() : QString("<b>%1</b> ").arg(run)) +
                        (open ? QString("<b>%1</b>").arg(title.toHtmlEscaped()) : title.toHtmlEscaped()) +
                        (muted ? " (muted)" : "");
  if (title_->text() != shown) title_->setText(shown);
  steps_->setTexts(findingSteps(finding));
  steps_->setToolTip(QString::fromStdString(steps_in_words(finding.steps.first, finding.steps.last)));
  showWords();
  mute_->setChecked(muted);
  details_->setVisible(open);
  update();
  setAccessibleName(QStringLiteral("%1: %2").arg(severityText(finding), title));
}

void FindingRow::showSettings(const RunSettings& settings) {
  const bool has_config = settings.config() != nullptr;
  for (QPushButton* knob : knobs_) knob->setVisible(has_config);
  QStringList parts;
  for (const Setting knob : finding_.knobs) {
    const QString label = QString::fromStdString(knob.field().label);
    const QString name = QString::fromStdString(settings.name_of(knob, {}));
    if (name.isEmpty() && !settings.program().empty()) continue;  // that program has no such setting
    const auto value = settings.text(knob);
    QString state = name.isEmpty() ? QString("not known") : name + ", not known";
    if (value) state = QString("%1 = %2").arg(name, QString::fromStdString(*value));
    parts << QString("%1 (%2)").arg(label, state);
  }
  stated_->setVisible(!has_config && !parts.isEmpty());
  stated_->setText(QString("Settings that affect it: %1").arg(parts.join(", ")));
}

// Paints the open finding on the soft ground of its sign.
void FindingRow::paintEvent(QPaintEvent*) {
  if (details_->isHidden()) return;
  QPainter painter(this);
  drawRounded(painter, rect(), kRadiusControl, signGround(signOf(finding_), isDark(palette())), Qt::transparent);
}

void FindingRow::showWords() {
  const QString text = wordsText(finding_, all_experts_);
  if (words_->text() != text) words_->setText(text);
}

void FindingRow::follow(const QString& link) {
  if (link.startsWith(QLatin1String("expert:"))) return emit expertChosen(link.section(QLatin1Char(':'), 1).toInt());
  all_experts_ = !all_experts_;
  showWords();
}

void FindingRow::mousePressEvent(QMouseEvent* event) {
  if (event->button() == Qt::LeftButton) emit clicked();
}

FindingsPanel::FindingsPanel(Selection* selection, FindingsWatch* watch, QWidget* parent)
    : Panel(selection, "Findings", Provenance::measured_here, parent), watch_(watch) {
  setProperty("shows_all_runs", true);
  layers_ = makeLayersChoice("all layers", "Layers");
  connect(layers_, &QComboBox::currentIndexChanged, this, &FindingsPanel::fill);
  connect(selection_, &Selection::focusChanged, this, [this] {
    if (layers_->currentIndex() == 1) fill();
  });
  addControl(layers_);
  addOptions();

  list_ = new QWidget;
  scroll_ = scrollOf(list_);
  scroll_->setFocusPolicy(Qt::NoFocus);
  // Where the list goes on below, its lower edge fades, so that no line seems to be cut.
  auto* edge = new QLabel(scroll_);
  edge->setAttribute(Qt::WA_TransparentForMouseEvents);
  edge->setStyleSheet("background: qlineargradient(y1: 0, y2: 1, stop: 0 transparent, stop: 1 palette(base))");
  const auto place = [this, edge] {
    const int height = edge->fontMetrics().height(), width = scroll_->viewport()->width();
    edge->setGeometry(0, scroll_->viewport()->height() - height, width, height);
    edge->setVisible(scroll_->verticalScrollBar()->value() < scroll_->verticalScrollBar()->maximum());
  };
  connect(scroll_->verticalScrollBar(), &QScrollBar::valueChanged, this, place);
  connect(scroll_->verticalScrollBar(), &QScrollBar::rangeChanged, this, place);
  list_->setBackgroundRole(QPalette::Base);
  list_->setAutoFillBackground(true);
  column_ = new QVBoxLayout(list_);
  column_->setContentsMargins(0, kSpace4, 0, 0);
  column_->setSpacing(0);
  healthy_ = new QLabel(list_);
  healthy_->setWordWrap(true);
  healthy_->setTextFormat(Qt::RichText);
  body_ = new QWidget(this);
  body_->installEventFilter(this);
  more_ = new LinkLabel({}, body_);
  more_->setObjectName("more_findings");
  more_->setContentsMargins(kSpace8 + kMarkSize + kSpace8, kSpace4, 0, kSpace4);
  connect(more_, &QLabel::linkActivated, this, [this] {
    all_shown_ = true;
    fill();
  });
  column_->addWidget(healthy_);
  column_->addStretch(1);
  auto* body = plainColumn(body_, 0);
  body->addWidget(scroll_, 1);
  body->addWidget(more_);
  addBody(body_);
  connect(watch_, &FindingsWatch::changed, this, &FindingsPanel::fill);
  connect(selection_, &Selection::dataChanged, this, [this] {
    if (rows_.empty()) showHealthy();
  });
  fill();
}

void FindingsPanel::addOptions() {
  auto* copy = new QAction("&Copy the findings as text", this);
  connect(copy, &QAction::triggered, this, [this] { QApplication::clipboard()->setText(watch_->text()); });
  auto* save = new QAction("&Save the findings as text...", this);
  connect(save, &QAction::triggered, this, [this] { emit saveWanted(watch_->text()); });
  show_muted_ = new QAction("Show &muted findings", this);
  show_muted_->setCheckable(true);
  connect(show_muted_, &QAction::toggled, this, &FindingsPanel::fill);
  for (QAction* action : {copy, save, show_muted_}) addOption(action);
}

std::vector<const Finding*> FindingsPanel::listed() const {
  std::vector<const Finding*> shown;
  for (const Finding& finding : watch_->findings()) {
    const bool elsewhere = layers_->currentIndex() == 1 && !finding.layers.empty() &&
                           std::ranges::count(finding.layers, selection_->layer()) == 0;
    const auto is_same = [&](const Finding* other) { return says_the_same(*other, finding); };
    if (!elsewhere && (show_muted_->isChecked() || !watch_->isMuted(finding)) && std::ranges::none_of(shown, is_same))
      shown.push_back(&finding);
  }
  return shown;
}

void FindingsPanel::fill() {
  const std::vector<const Finding*> all = listed();
  std::vector<const Finding*> shown;
  for (const Finding* finding : all)
    if (groupOf(*finding, all).front() == finding) shown.push_back(finding);
  const auto chosen = std::ranges::find(shown, chosen_, [](const Finding* finding) { return finding_id(*finding); });
  if (chosen != shown.end() && chosen - shown.begin() >= kFirstRows) all_shown_ = true;
  if (!all_shown_ && shown.size() > kFirstRows + 1) shown.resize(kFirstRows);
  makeRows(shown);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const int place = watch_->placeOf(*shown[i]);
    const bool is_chosen = finding_id(*shown[i]) == chosen_;
    rows_[i]->show(merged(groupOf(*shown[i], all)), watch_->lettersOf(*shown[i]), watch_->isMuted(*shown[i]),
                   is_chosen);
    if (place >= 0) rows_[i]->showSettings(*selection_->histories()[place]->settings_at(shown[i]->steps.last));
  }
  const std::size_t whole = all_shown_ || !chosen_.empty() ? rows_.size() : wholeRows(shown.size() < all.size());
  std::size_t finding_count = 0;  // findings of the visible rows
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    rows_[i]->setVisible(i < whole);
    if (i < whole) finding_count += groupOf(*shown[i], all).size();
  }
  if (chosen_.empty() && !all_shown_) scroll_->verticalScrollBar()->setValue(0);  // the worst findings stay in sight
  const QString count = finding_count < all.size() ? QString("%1 of %2 shown").arg(finding_count).arg(all.size())
                                                   : QString("%1 findings in %2 rows").arg(finding_count).arg(whole);
  more_->setText(count + ": <a href='all'>show all</a>");
  more_->setVisible(whole < all.size() && chosen_.empty());
  showHealthy();
  emit countChanged(watch_->count(Severity::severe) + watch_->count(Severity::warning));
  update();
}

// The findings whose row is that of `finding`: those of a kind in several layers, until one of them is opened.
std::vector<const Finding*> FindingsPanel::groupOf(const Finding& finding,
                                                   const std::vector<const Finding*>& all) const {
  const char* phrase = finding_kind_info(finding.kind).layers_phrase;
  const auto key = [](const Finding& f) { return std::tuple(f.kind, f.run, f.severity, f.ongoing, f.layers.size()); };
  std::vector<const Finding*> group;
  bool is_open = all_shown_ || !phrase || !*phrase || finding.layers.empty();
  for (const Finding* other : all)
    if (key(*other) == key(finding)) {
      group.push_back(other);
      is_open |= finding_id(*other) == chosen_;
    }
  return is_open || group.size() < kMinGroup ? std::vector{&finding} : group;
}

// Returns the number of closed rows that fit whole above the link to the others, at least 1.
std::size_t FindingsPanel::wholeRows(bool has_more) const {
  const int link = more_->fontMetrics().height() + 2 * kSpace4;
  int room = body_->height() - kSpace4, whole = 0;
  for (const FindingRow* row : rows_) {
    room -= row->layout()->heightForWidth(body_->width());
    const bool is_last = row == rows_.back() && !has_more;
    if (room < (is_last ? 0 : link)) break;
    ++whole;
  }
  return std::min<std::size_t>(rows_.size(), std::max(1, whole));
}

bool FindingsPanel::eventFilter(QObject* watched, QEvent* event) {
  if (watched == body_ && event->type() == QEvent::Resize) fill();
  return Panel::eventFilter(watched, event);
}

void FindingsPanel::makeRows(const std::vector<const Finding*>& shown) {
  const bool unchanged =
      shown.size() == rows_.size() &&
      std::ranges::equal(shown, rows_, [](const Finding* finding, const FindingRow* row) {
        return finding_id(*finding) == finding_id(row->finding()) && finding->severity == row->finding().severity &&
               finding->knobs == row->finding().knobs && finding->operands == row->finding().operands;
      });
  if (unchanged) return;
  for (FindingRow* row : rows_) row->deleteLater();
  rows_.clear();
  for (const Finding* finding : shown) {
    auto* row = new FindingRow(*finding, list_);
    const int place = rows();
    column_->insertWidget(1 + place, row);
    rows_.push_back(row);
    connect(row, &FindingRow::clicked, this, [this, place] {
      setFocus();
      choose(finding_id(findingAt(place)) == chosen_ ? -1 : place);
    });
    connect(row, &FindingRow::knobRequested, this, &FindingsPanel::knobRequested);
    connect(row, &FindingRow::elementOpened, this, [this, place](const OperandElement& element) {
      emit elementOpened(element, findingAt(place).steps.first);
    });
    connect(row, &FindingRow::expertChosen, this, [this, place](int expert) {
      selection_->setLayer(findingAt(place).layers.front());
      selection_->setExpert(expert);
    });
    connect(row, &FindingRow::muteRequested, this,
            [this, place](bool muted) { watch_->setMuted(findingAt(place), muted); });
  }
}

void FindingsPanel::showHealthy() {
  healthy_->setVisible(rows_.empty());
  if (!rows_.empty()) return;
  QString text;
  if (!selection_->history()) {
    text = noDataYetNotice(*selection_).toHtmlEscaped();
  } else if (!watch_->ready()) {
    text = QString("Reading the run...");
  } else {
    const int muted = watch_->mutedCount();
    text = QStringLiteral("<p><b>%1</b></p>")
               .arg(muted > 0 ? QString("Nothing else found; %1 muted").arg(muted) : QString("Nothing found")) +
           watch_->checksHtml();
  }
  if (healthy_->text() != text) healthy_->setText(text);
}

const Finding& FindingsPanel::findingAt(int place) const {
  return rows_[place]->finding();
}

int FindingsPanel::rowOf(const std::string& id) const {
  return index_in(rows_, id, [](const FindingRow* row) { return finding_id(row->finding()); });
}

void FindingsPanel::choose(int row) {
  chosen_ = row >= 0 && row < rows() ? finding_id(findingAt(row)) : std::string();
  if (chosen_.empty()) return fill();
  fill();  // opens its group
  showEvidence(findingAt(rowOf(chosen_)));
  FindingRow* chosen = rows_[rowOf(chosen_)];
  QMetaObject::invokeMethod(
      this,
      [this, chosen] {
        if (std::ranges::count(rows_, chosen) == 0) return;
        scroll_->ensureWidgetVisible(chosen, 0, 4);
        scroll_->ensureVisible(0, chosen->y(), 0, 4);  // the title, if the row is higher than the panel
      },
      Qt::QueuedConnection);  // runs after the layout
}

void FindingsPanel::open(const QString& id) {
  if (rowOf(id.toStdString()) < 0) {
    all_shown_ = true;
    layers_->setCurrentIndex(0);
    fill();
  }
  const int row = rowOf(id.toStdString());
  if (row < 0) return;
  choose(row);
  if (const auto operand = findingAt(row).tensor) emit operandOpened(*operand, findingAt(row).steps.last);
}

// Shows run, layer and expert of the finding; of one that is over, its steps with a margin and the cursor at their end.
// The timeline has the way back to all steps.
void FindingsPanel::showEvidence(const Finding& finding) {
  const int place = watch_->placeOf(finding);
  if (place < 0) return;
  selection_->setRun(place);
  if (!finding.ongoing) {
    const StepRange all = selection_->history()->steps();
    const std::int64_t margin = std::max<std::int64_t>(20, finding.steps.size() / 5);
    selection_->setStep(finding.steps.last);
    selection_->setRange(
        {std::max(all.first, finding.steps.first - margin), std::min(all.last, finding.steps.last + margin)});
  }
  if (!finding.layers.empty()) selection_->setLayer(finding.layers.front());
  if (!finding.experts.empty()) selection_->setExpert(finding.experts.front());
  if (!finding.operands.empty()) {
    const OperandElement& element = finding.operands.front();
    selection_->setTensor(element.place);
    if (element.expert >= 0) selection_->setExpert(element.expert);
  }
  if (finding.tensor) selection_->setTensor(*finding.tensor);
}

void FindingsPanel::keyPressEvent(QKeyEvent* event) {
  const int row = rowOf(chosen_);
  switch (event->key()) {
    case Qt::Key_Down:
      if (row + 1 == rows() && more_->isVisibleTo(this)) {
        all_shown_ = true;
        fill();
      }
      return choose(std::min(row + 1, rows() - 1));
    case Qt::Key_Up:
      return choose(row < 0 ? rows() - 1 : std::max(row - 1, 0));
    case Qt::Key_Escape:
      if (row >= 0) return choose(-1);
      break;
    case Qt::Key_Delete:
      if (row >= 0) return watch_->setMuted(findingAt(row), true);
      break;
    default:
      break;
  }
  Panel::keyPressEvent(event);
}

QString FindingsPanel::status() const {
  if (!watch_->ready()) return {};
  QStringList parts;
  for (const Severity severity : {Severity::severe, Severity::warning, Severity::note}) {
    const int count = watch_->count(severity);
    if (count == 0) continue;
    const QString name = QString::fromUtf8(severity_name(severity));
    parts << QStringLiteral("%1 %2").arg(count).arg(
        count == 1 || severity == Severity::severe ? name : name + QLatin1Char('s'));
  }
  if (const int past_count = watch_->pastCount()) parts << QString("%1 over").arg(past_count);
  if (parts.isEmpty()) parts << QString("nothing found");
  if (const int muted = watch_->mutedCount()) parts << QString("%1 muted").arg(muted);
  if (!watch_->read().isEmpty()) parts << QString("read: %1").arg(watch_->read());
  return parts.join(QStringLiteral(", "));
}

ValueTable FindingsPanel::table() const {
  ValueTable table({"run", "severity", "ongoing", "kind", "layers", "experts", "first step", "last step", "title",
                    "observation", "why", "settings"});
  const auto numbers = [](const std::vector<int>& list) {
    return joined(list, " ", [](int number) { return std::to_string(number); });
  };
  for (const Finding& f : watch_->findings())
    if (!watch_->isMuted(f))
      table.add(f.run, std::string(severity_name(f.severity)), f.ongoing, std::string(finding_kind_info(f.kind).name),
                numbers(f.layers), numbers(f.experts), f.steps.first, f.steps.last, f.title, f.observation, f.meaning,
                joined(f.settings, " "));
  if (table.rows() > 0) return table;
  const QString checks =
      QString("Read: %1. Passed: %2 Not checked: %3")
          .arg(watch_->read(), watch_->passed().join(QLatin1Char(' ')), watch_->notChecked().join(QLatin1Char(' ')));
  const TableValue none;
  table.add(none, none, none, std::string("none"), none, none, none, none, std::string("Nothing found"),
            checks.toStdString(), none, none);
  return table;
}

}  // namespace moescope
