#include "widgets/panel/panel.h"

#include <QAbstractButton>
#include <QApplication>
#include <QContextMenuEvent>
#include <QPainter>
#include <QRegularExpression>
#include <algorithm>
#include <utility>

#include "core/files/assets.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/controls.h"
#include "widgets/panel/explain_card.h"
#include "widgets/panel/metric_text.h"
#include "widgets/plots/axis.h"
#include "widgets/plots/value_tile.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

namespace {

constexpr int kMinBody = 64;                // height in which a plot can be read
constexpr QLatin1String kNotIn("Not in ");  // begins the notices of what is not in a log
constexpr QLatin1String kKey("Key \"");     // begins the names of keys that a log can have

}  // namespace

// The state in the header. Computes its text while painting, so that a hidden panel computes nothing.
class Panel::StatusLine : public QWidget {
 public:
  explicit StatusLine(Panel* panel) : QWidget(panel), panel_(panel) {
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Preferred);
  }
  QSize sizeHint() const override { return minimumSizeHint(); }
  QSize minimumSizeHint() const override {
    // Reserves room for the kind while it is not shown, so that controls stay in place when data come.
    const QFontMetrics metrics(typeFont(Type::secondary));
    // For the width only, since a log has another kind. A panel of one of several runs keeps its room for the title.
    const QString brief = panel_->property("of_run").isValid() ? QString() : briefKind(panel_->provenance_);
    return {metrics.horizontalAdvance(brief) + 2, metrics.height() + 4};
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    painter.setPen(mutedText(palette()));
    const QFont font = typeFont(Type::secondary);
    const QFontMetrics metrics(font);
    painter.setFont(font);
    QStringList parts = panel_->status().split(QStringLiteral(", "), Qt::SkipEmptyParts);
    if (const auto kind = panel_->kind()) parts.prepend(*kind == Provenance::from_log ? logText() : kindText(*kind));
    if (nextLog() >= 0) parts << QString("click for %1").arg(runLetter(*panel_->selection_, nextLog()));
    QStringList forms;  // long to short; one word for the kind is added as the last form
    while (!parts.isEmpty()) {
      forms << parts.join(QStringLiteral(", "));
      parts.removeLast();
    }
    const QString whole = forms.value(0), first = forms.value(forms.size() - 2).section(QStringLiteral(", "), 1);
    if (const auto kind = panel_->kind()) {
      const bool is_log = *kind == Provenance::from_log;
      const QString brief = is_log ? logText().remove("from ").remove(" only").remove("the ") : briefKind(*kind);
      // The word for the kind is shortened, and left out before a step that is not the cursor's.
      const Selection& selection = *panel_->selection_;
      const bool is_other_step =
          first.startsWith(selection.stepWord()) && !first.endsWith(formatCount(selection.step()));
      if (is_other_step && !is_log) forms.insert(forms.size() - 1, first);
      if (!first.isEmpty())
        forms.insert(forms.size() - 1 - int{is_other_step && !is_log}, brief + QStringLiteral(", ") + first);
      forms << brief << briefKind(*kind);
    }
    painter.drawText(rect(), Qt::AlignLeft | Qt::AlignVCenter, fittingText(forms, metrics, width()));
    const QString tip = showsOneOfSeveral() ? whole + "\nA click on a name in the bar shows another run" : whole;
    if (toolTip() != tip) setToolTip(tip);
    const Qt::CursorShape shape = nextLog() < 0 ? Qt::ArrowCursor : Qt::PointingHandCursor;
    if (cursor().shape() != shape) setCursor(shape);
  }
  void mousePressEvent(QMouseEvent* event) override {
    nextLog() < 0 ? QWidget::mousePressEvent(event) : panel_->selection_->setRun(nextLog());
  }

 private:
  static QString kindText(Provenance kind) { return QString(provenance_name(kind)); }
  bool showsOneOfSeveral() const {
    return panel_->selection_->histories().size() > 1 && !panel_->property("shows_all_runs").toBool();
  }
  // The log that a click shows; -1: the panel shows all.
  int nextLog() const {
    if (panel_->kind() != Provenance::from_log || !showsOneOfSeveral() || panel_->property("of_run").isValid())
      return -1;
    return (panel_->selection_->run() + 1) % to_int(panel_->selection_->histories().size());
  }
  // Which log: "from log B only", or "from the logs" if the panel shows all runs.
  QString logText() const {
    const Selection& selection = *panel_->selection_;
    if (showsOneOfSeveral()) return QString("from log %1 only").arg(runLetter(selection, selection.run()));
    return selection.histories().size() > 1 ? QString("from the logs") : kindText(Provenance::from_log);
  }
  static QString briefKind(Provenance kind) {
    return kind == Provenance::from_log ? QString("log") : kindText(kind).section(QLatin1Char(' '), 0, 0);
  }
  Panel* panel_;
};

// The line with question and answer, and a colour scale at the right. Computes its text while painting.
class Panel::AnswerLine : public QWidget {
 public:
  AnswerLine(Panel* panel, std::function<LegendScale()> legend)
      : QWidget(panel), panel_(panel), legend_(std::move(legend)) {
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    followFont(this, [this] { setFixedHeight(withType(kAnswerHeight, fontMetrics())); });
  }
  QSize sizeHint() const override { return {withType(120, fontMetrics()), height()}; }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    const Colors& c = colors(palette());
    const Answer answer = panel_->answer();
    const QFont font = typeFont(Type::secondary);
    const QFontMetrics metrics(font);
    const bool shows_legend = legend_ && panel_->hasFigures();
    painter.setFont(typeFont(Type::caption));
    // The shortest form of the answer has room before the legend has.
    const int least_room = answer.answers.isEmpty() ? 0 : metrics.horizontalAdvance(answer.answers.back());
    const QRect right = rect().adjusted(std::max(width() / 3, least_room > 0 ? least_room + kSpace12 : 0), 0, 0, 0);
    const int legend = shows_legend ? paintFlatLegend(painter, right, legend_(), palette()) : 0;
    painter.setFont(font);
    const int room = width() - (legend > 0 ? legend + kSpace12 : 0);
    QString shown = fittingText(answer.answers, metrics, room);
    if (answer.failed) painter.fillRect(rect(), QColor(c.bad_soft));
    int x = 0;
    if (!answer.question.isEmpty() && !answer.answers.isEmpty()) {
      const int question = metrics.horizontalAdvance(answer.question + QLatin1Char(' '));
      if (const QString answer_text = fittingText(answer.answers, metrics, room - question); !answer_text.isEmpty()) {
        painter.setPen(QColor(c.ink2));
        painter.drawText(rect(), Qt::AlignLeft | Qt::AlignVCenter, answer.question);
        x = question;
        shown = answer_text;
      }
    }
    painter.setPen(QColor(answer.failed ? c.bad : c.ink));
    painter.drawText(rect().adjusted(x, 0, 0, 0), Qt::AlignLeft | Qt::AlignVCenter, shown);
    if (const QString whole = panel_->answerText(); toolTip() != whole) {
      setToolTip(whole);
      setAccessibleName(whole);
    }
  }

 private:
  Panel* panel_;
  std::function<LegendScale()> legend_;
};

namespace {

QToolButton* headerButton(const QString& text, const QString& name, QWidget* parent) {
  auto* button = new QToolButton(parent);
  button->setText(text);
  button->setAutoRaise(true);
  button->setAccessibleName(name);
  button->setToolTip(name);
  return button;
}

// Adds menu entries that act like the control.
void addControlTo(QMenu* menu, QWidget* control) {
  const QString name = control->accessibleName();
  if (auto* box = qobject_cast<QComboBox*>(control)) {
    QMenu* choices = menu->addMenu(name.isEmpty() ? QString("Show") : name);
    choices->setEnabled(box->isEnabled());
    for (int i = 0; i < box->count(); ++i) {
      QAction* choice = choices->addAction(box->itemText(i), box, [box, i] {
        box->setCurrentIndex(i);
        emit box->activated(i);
      });
      choice->setCheckable(true);
      choice->setChecked(i == box->currentIndex());
    }
  } else if (auto* button = qobject_cast<QAbstractButton*>(control)) {
    QAction* action = menu->addAction(name.isEmpty() ? button->text() : name, button, [button] { button->click(); });
    action->setToolTip(button->toolTip());
    action->setEnabled(button->isEnabled());
    action->setCheckable(button->isCheckable());
    action->setChecked(button->isChecked());
  } else if (!qobject_cast<QLabel*>(control)) {
    for (QWidget* inner : control->findChildren<QWidget*>(QString(), Qt::FindDirectChildrenOnly))
      if (!inner->isHidden()) addControlTo(menu, inner);
  }
}

}  // namespace

Panel::Panel(Selection* selection, const QString& title, Provenance provenance, QWidget* parent)
    : QWidget(parent), selection_(selection), title_(title), headings_{title}, provenance_(provenance) {
  setAccessibleName(title);
  menu_controls_ = new QWidget(this);
  menu_controls_->hide();
  setFocusPolicy(Qt::StrongFocus);
  setBackgroundRole(QPalette::Base);
  column_ = new QVBoxLayout(this);
  column_->setContentsMargins(kSpace12, 0, kSpace12, kSpace8);
  column_->setSpacing(0);
  buildHeader();
  column_->addWidget(header_);
  connect(selection_, &Selection::changed, this, &Panel::followValues);
}

void Panel::buildHeader() {
  header_ = new QWidget(this);
  header_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);  // the controls do not widen the panel
  row_ = plainRow(header_, kSpace4);
  title_label_ = new QLabel(title_, header_);
  followFont(title_label_, [this] { title_label_->setFont(semibold(QApplication::font())); });
  row_->addWidget(title_label_);
  status_line_ = new StatusLine(this);
  row_->addSpacing(kSpace4);
  row_->addWidget(status_line_, 1);
  more_button_ =
      headerButton(QString::fromUtf8("\u22ef"), QString("%1: options, save, copy, close").arg(title_), header_);
  more_button_->setObjectName(QStringLiteral("more"));
  menu_ = new QMenu(this);
  menu_->setToolTipsVisible(true);
  connect(more_button_, &QToolButton::clicked, this, [this] {
    fillMenu();  // before its width is known
    menu_->popup(
        more_button_->mapToGlobal(QPoint(more_button_->width() - menu_->sizeHint().width(), more_button_->height())));
  });
  connect(menu_, &QMenu::aboutToShow, this, &Panel::fillMenu);
  row_->addWidget(more_button_);
  explain_button_ = headerButton(QStringLiteral("?"), QString("Explain %1").arg(title_), header_);
  explain_button_->setToolTip("Explanation of this panel: formulas, how to read it, sources");
  connect(explain_button_, &QToolButton::clicked, this, [this] {
    openCard(explain_button_->mapToGlobal(explain_button_->rect().bottomLeft()), headings_.front(),
             [this] { return explain(); });
  });
  row_->addWidget(explain_button_);
  followFont(header_, [this] { header_->setFixedHeight(withType(kPanelHeaderHeight, header_->fontMetrics())); });
}

void Panel::setHeading(const QString& heading) {
  const QString run = property("of_run").toString();  // "A bf16: "
  const QStringList forms{run + heading, run.isEmpty() ? heading : run.left(1) + ": " + heading};
  if (headings_ == forms) return;
  headings_ = forms;
  arrangeControls();
}

QStringList Panel::readout(std::span<const TableValue> keys) const {
  if (!readout_table_) readout_table_ = table();
  const auto row = readout_table_->find(keys);
  return row ? rowText(*readout_table_, *row, keys.size()) : QStringList();
}

// Status, answer and readouts are about the shown values.
void Panel::followValues() {
  readout_table_.reset();
  status_line_->update();
  if (answer_line_) answer_line_->update();
}

void Panel::showAnswers(std::function<LegendScale()> legend) {
  answer_line_ = new AnswerLine(this, std::move(legend));
  column_->insertWidget(1, answer_line_);
}

// True if a plot shows data; without data there is no legend.
bool Panel::hasFigures() const {
  return std::ranges::any_of(findChildren<PlotFrame*>(), &QString::isEmpty, &PlotFrame::notice);
}

QString Panel::answerText() const {
  const Answer whole = answer();
  return (whole.question + QLatin1Char(' ') + whole.answers.value(0)).trimmed();
}

std::optional<FigureTarget> Panel::figureUnder(QPoint position) const {
  if (!selection_->history()) return std::nullopt;
  for (QWidget* at = childAt(mapFromGlobal(position)); at && at != this; at = at->parentWidget()) {
    const auto* plot = qobject_cast<const PlotFrame*>(at);
    if (const auto figure = plot ? plot->figureAt(at->mapFromGlobal(position)) : std::nullopt) return figure;
    if (const auto* tile = qobject_cast<const ValueTile*>(at); tile && tile->figure) return tile->figure();
  }
  return std::nullopt;
}

void Panel::explainAt(QPoint position) {
  const auto figure = figureUnder(position);
  if (!figure) return openCard(position, title_, [this] { return explain(); });
  const bool at_cursor = figure->step == selection_->step();  // then the card follows the cursor
  openCard(position, QString::fromUtf8(figure->key.info().name), [this, at_cursor, figure = *figure]() mutable {
    const History* history = selection_->history();
    if (at_cursor) figure.step = selection_->step();
    return history ? cardOf(explain_figure(*history, figure)) : QString();
  });
}

void Panel::contextMenuEvent(QContextMenuEvent* event) {
  explainAt(event->globalPos());
}

void Panel::openCard(QPoint at, const QString& title, std::function<QString()> html) {
  if (!manual_page_.isEmpty())
    html = [html = std::move(html),
            link = QString("<p>Manual: <a href='page:%1'>%2</a></p>").arg(manual_page_, manual_title_)] {
      return html() + link;
    };
  ExplainCard* card = ExplainCard::open(window(), at, title, std::move(html));
  connect(card, &ExplainCard::manualRequested, this, &Panel::manualRequested);
  connect(card, &ExplainCard::knobRequested, this, &Panel::knobRequested);
  connect(card, &ExplainCard::lessonRequested, this, &Panel::lessonRequested);
  connect(selection_, &Selection::changed, card, &ExplainCard::refresh);
  connect(this, &QObject::destroyed, card, &QObject::deleteLater);
}

FigureTarget Panel::target(const MetricInfo& info) const {
  FigureTarget target{.key = info};
  target.layer = selection_->layer();
  target.expert = selection_->expert();
  target.step = selection_->step();
  target.quant = selection_->tensor();
  if (target.expert >= 0) return target;
  target.expert = 0;
  const auto frame = selection_->frame();
  const RouterFrame* router = find_router(frame.get(), target.layer);
  if (!router || router->tokens_per_expert.empty()) return target;
  const auto& counts = router->tokens_per_expert;  // no expert is selected: takes the fullest
  target.expert = to_int(std::ranges::max_element(counts) - counts.begin());
  return target;
}

QString Panel::metricCard(const MetricInfo& info) const {
  const History* history = selection_->history();
  if (!history) return moescope::metricCard(info);
  FigureTarget figure_target = target(info);
  Explanation figure = explain_figure(*history, figure_target);
  if (figure.place.empty() && figure_target.layer != kWholeRun) {
    figure_target.layer = kWholeRun;
    figure = explain_figure(*history, figure_target);
  }
  return cardOf(std::move(figure));
}

QString Panel::cardOf(Explanation figure) const {
  if (selection_->histories().size() > 1 && !figure.place.empty())
    figure.place = "run " + runLetter(*selection_, selection_->run()).toStdString() + ", " + figure.place;
  return figureCard(figure);
}

QString Panel::explanation(const QStringList& values) const {
  static const QRegularExpression kWordEnds("(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])");
  static const QRegularExpression kCards("\\{cards ([a-z0-9_ ]+)\\}");
  const QString type = QString::fromLatin1(metaObject()->className()).section(QLatin1Char(':'), -1).chopped(5);
  const QString name = QString(type).replace(kWordEnds, "_").toLower();
  QString text = QString::fromUtf8(asset(("panels/" + name + ".html").toStdString())).simplified();
  if (values.isEmpty() && text.contains("%1")) text = text.arg(measuredWhere(selection_->history()));
  for (const QString& value : values) text = text.arg(value);
  for (auto found = kCards.match(text); found.hasMatch(); found = kCards.match(text)) {
    QString cards;
    for (const QString& key : found.captured(1).split(QLatin1Char(' ')))
      if (const MetricInfo* info = find_metric(key.toStdString())) cards += metricCard(*info);
    text.replace(found.capturedStart(), found.capturedLength(), cards);
  }
  return text;
}

namespace {

// Returns the setting of a control in words; empty if a reader of a picture does not need it.
QString settingOf(const QWidget* control) {
  if (!control->isVisibleTo(control->parentWidget())) return {};
  if (const auto* choice = qobject_cast<const QComboBox*>(control)) return choice->currentText();
  if (const auto* button = qobject_cast<const QAbstractButton*>(control))
    return button->isCheckable() && button->isChecked() ? QString(button->text()).remove('&') : QString();
  if (const auto* label = qobject_cast<const QLabel*>(control)) return label->text();
  QStringList parts;
  for (const QWidget* inner : control->findChildren<QWidget*>(QString(), Qt::FindDirectChildrenOnly))
    if (const QString part = settingOf(inner); !part.isEmpty()) parts << part;
  const bool is_named = control->findChild<QLabel*>(QString(), Qt::FindDirectChildrenOnly);
  return parts.join(is_named ? QStringLiteral(" ") : QStringLiteral(", "));
}

}  // namespace

std::optional<Provenance> Panel::kind() const {
  const History* history = selection_->history();
  if (provenance_ == Provenance::measured_here && (!history || history->steps().empty())) return std::nullopt;
  return history ? provenance_in(history->info(), provenance_) : provenance_;
}

QString Panel::caption() const {
  const auto shown = kind();
  QStringList parts{shown ? QString(provenance_name(*shown)) : QString(), status()};
  for (const Control& control : controls_) parts << settingOf(control.widget);
  parts = parts.join(QStringLiteral(", ")).split(QStringLiteral(", "), Qt::SkipEmptyParts);
  parts.removeDuplicates();  // the header may repeat the setting of a control
  return parts.join(QStringLiteral(", "));
}

QString Panel::csvFile() const {
  const ValueTable shown = table();
  std::vector<ValueColumn> columns = shown.columns();
  columns.push_back({"source"});
  ValueTable with_source(std::move(columns));
  QString source = caption();
  if (selection_->history()) source += ", active run " + runLabel(*selection_, selection_->run());
  for (std::size_t i = 0; i < shown.rows(); ++i) {
    std::vector<TableValue> row(shown.row(i).begin(), shown.row(i).end());
    row.emplace_back(source.toStdString());
    with_source.add_row(row);
  }
  return QString::fromStdString(to_csv(with_source));
}

QRect Panel::bodyRect() const {
  const QWidget* above = answer_line_ && !answer_line_->isHidden() ? static_cast<QWidget*>(answer_line_) : header_;
  return rect().adjusted(0, above->geometry().bottom() + 1, 0, 0);
}

void Panel::addControl(QWidget* control) {
  auto* place = new QWidget(header_);
  auto* layout = plainRow(place);
  layout->addWidget(control);
  row_->insertWidget(row_->count() - 2, place);
  if (qobject_cast<QComboBox*>(control)) control->setProperty(kFlatProperty, true);
  controls_.push_back({control, place});
  if (auto* box = qobject_cast<QComboBox*>(control))
    connect(box, &QComboBox::currentIndexChanged, this, &Panel::followValues);
  if (auto* button = qobject_cast<QAbstractButton*>(control))
    connect(button, &QAbstractButton::toggled, this, &Panel::followValues);
}

QComboBox* Panel::makeChoice(const QStringList& items, const QString& name, const QString& tip) {
  auto* choice = new FlatCombo(this);
  choice->addItems(items);
  choice->setAccessibleName(name);
  choice->setToolTip(tip);
  return choice;
}

QComboBox* Panel::makeLayersChoice(const QString& all, const QString& name) {
  QComboBox* choice = makeChoice({all, {}}, name);
  const auto name_layer = [this, choice] { choice->setItemText(1, QString("layer %1").arg(selection_->layer())); };
  connect(selection_, &Selection::focusChanged, choice, name_layer);
  name_layer();
  return choice;
}

QToolButton* Panel::makeToggle(const QString& text, const QString& tip) {
  auto* button = new QToolButton(this);
  button->setText(text);
  button->setToolTip(tip);
  button->setCheckable(true);
  return button;
}

QWidget* Panel::makeSteps(const QString& previous, const QString& next,
                          const std::function<void(int direction)>& step) {
  auto* pair = new QWidget(this);
  pair->setAccessibleName(previous + QStringLiteral(", ") + next.toLower());
  auto* row = plainRow(pair, 0);
  for (const int direction : {-1, 1}) {
    auto* button = new QToolButton(pair);
    button->setText(direction < 0 ? QStringLiteral("\u2039") : QStringLiteral("\u203a"));
    button->setAutoRaise(true);
    button->setAccessibleName(direction < 0 ? previous : next);
    button->setToolTip(button->accessibleName());
    connect(button, &QToolButton::clicked, this, [step, direction] { step(direction); });
    row->addWidget(button);
  }
  return pair;
}

void Panel::keepState(const QString& key, QComboBox* choice) {
  keepState(
      key, [choice] { return choice->currentIndex(); },
      [choice](const QVariant& state) { choice->setCurrentIndex(std::clamp(state.toInt(), 0, choice->count() - 1)); });
}

void Panel::keepState(const QString& key, QAbstractButton* button) {
  keepState(
      key, [button] { return button->isChecked(); },
      [button](const QVariant& state) { button->setChecked(state.toBool()); });
}

void Panel::keepState(const QString& key, std::function<QVariant()> save,
                      std::function<void(const QVariant&)> restore) {
  kept_states_.push_back({key, std::move(save), std::move(restore)});
}

QVariantMap Panel::saveState() const {
  QVariantMap state;
  for (const KeptState& kept_state : kept_states_) state[kept_state.key] = kept_state.save();
  return state;
}

void Panel::restoreState(const QVariantMap& state) {
  for (const KeptState& kept_state : kept_states_)
    if (state.contains(kept_state.key)) kept_state.restore(state[kept_state.key]);
}

bool Panel::hasSteps(PlotFrame* plot) const {
  const History* history = selection_->history();
  if (history && !history->steps().empty()) return true;
  plot->setNotice(noDataYetNotice(*selection_));
  return false;
}

void Panel::addOption(QWidget* control) {
  const bool hidden = control->isHidden() && control->testAttribute(Qt::WA_WState_ExplicitShowHide);
  control->setParent(menu_controls_);
  control->setVisible(!hidden);
  controls_.push_back({control, nullptr});
}

// Fills the menu. Entries for the controls are created again; actions of panel and window are kept.
void Panel::fillMenu() {
  for (QAction* action : menu_->actions()) {
    menu_->removeAction(action);
    if (action->parent() == menu_) action->deleteLater();
  }
  for (const Control& control : controls_) {
    const bool in_menu = !control.widget->isHidden() && (!control.place || control.place->isHidden());
    if (in_menu) addControlTo(menu_, control.widget);
  }
  menu_->addActions(options_);
  if (!menu_->isEmpty()) menu_->addSeparator();
  menu_->addActions(window_actions_);
}

bool Panel::event(QEvent* event) {
  if (event->type() == QEvent::LayoutRequest || event->type() == QEvent::Resize) {
    arrangeControls();
    fold();
  }
  return QWidget::event(event);
}

// Sets no focus proxy: with a proxy, Tab would skip the header's controls.
void Panel::giveFocusTo(QWidget* part) {
  setFocusPolicy(Qt::ClickFocus);
  focused_part_ = part;
}

void Panel::focusInEvent(QFocusEvent* event) {
  QWidget::focusInEvent(event);
  if (focused_part_) focused_part_->setFocus(event->reason());
}

// Leaves out the answer of a low panel, or the plot if there is no room for it without the answer either, so that the
// other parts keep their height and are readable.
void Panel::fold() {
  if (!folds_) return;
  int remaining_height = height() - column_->contentsMargins().bottom();
  for (int i = 0; i < column_->count(); ++i) {
    const QWidget* part = column_->itemAt(i)->widget();
    if (part && part != folds_ && part != answer_line_ && !part->isHidden())
      remaining_height -= std::max(part->minimumHeight(), part->sizeHint().height());
  }
  const int least_height = withType(kMinBody, fontMetrics());
  const bool low = remaining_height < least_height;
  if (answer_line_) {
    const bool has_room = low || remaining_height - answer_line_->height() >= least_height;
    if (has_room == answer_line_->isHidden()) answer_line_->setVisible(has_room);
  }
  if (low != folds_->isHidden()) folds_->setVisible(!low);
}

void Panel::hideEvent(QHideEvent* event) {
  if (window()->isVisible()) emit readoutChanged({});  // not while the window closes
  QWidget::hideEvent(event);
}

// Shows the longest title that fits, and the first controls that fit in the header, at most two; the others become
// entries of the menu.
void Panel::arrangeControls() {
  constexpr int kMaxShown = 2;
  int room = width() - 2 * kSpace12 - row_->spacing() * (row_->count() - 1) - kSpace4 -
             status_line_->minimumSizeHint().width() - more_button_->sizeHint().width() -
             explain_button_->sizeHint().width();
  const QString heading = fittingText(headings_, title_label_->fontMetrics(), room);
  title_label_->setText(heading.isEmpty() ? headings_.back() : heading);
  room -= title_label_->sizeHint().width();
  int shown = 0;
  for (const Control& control : controls_) {
    if (!control.place || control.widget->isHidden()) continue;
    const QWidget* widget = control.widget;
    room -= widget->sizeHint().expandedTo(widget->minimumSize()).boundedTo(widget->maximumSize()).width();
    const bool fits = room >= 0 && shown < kMaxShown;
    if (fits) ++shown;
    if (control.place->isHidden() == fits) control.place->setVisible(fits);
  }
}

void Panel::addBody(QWidget* body, int stretch) {
  column_->addWidget(body, stretch);
  QList<PlotFrame*> plots = body->findChildren<PlotFrame*>();
  if (auto* plot = qobject_cast<PlotFrame*>(body)) plots << plot;
  for (PlotFrame* plot : plots) {
    connect(plot, &PlotFrame::readoutChanged, this, &Panel::readoutChanged);
    connect(plot, &PlotFrame::dirtied, this, &Panel::followValues);
    connect(plot, &PlotFrame::linkFollowed, this, [this, plot] {
      plot->notice().contains(kKey) ? emit manualRequested("file-formats.md") : emit accountRequested();
    });
    plot->linkUnder = [this](const QString& notice) {
      const History* history = selection_->history();
      const bool is_log = history && run_origin(history->info()) == RunOrigin::log;
      if (!is_log || !notice.startsWith(kNotIn)) return QString();
      return QString(notice.contains(kKey) ? "Keys of a log" : "What was read");
    };
    if (plot->accessibleName().isEmpty()) plot->setAccessibleName(title_);
  }
  if (auto* plot = qobject_cast<PlotFrame*>(body)) giveFocusTo(plot);
  // The header is painted last, since plots determine its texts while painting.
  header_->raise();
  if (answer_line_) answer_line_->raise();
}

QString Panel::timeStatus(std::int64_t shown_step, bool arrays) const {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return {};
  QString text = QString("%1 %2").arg(selection_->stepWord(), formatCount(shown_step));
  if (!selection_->following()) text += QString(", at the cursor");
  if (arrays && history->kept_every() > 1) text += QString(", drawing 1 of %1 steps").arg(history->kept_every());
  return text;
}

QString noDataYetNotice(const Selection& selection) {
  if (!selection.history()) return selection.opening().isEmpty() ? QString("No run is open") : selection.opening();
  const std::optional<double> seconds = selection.firstStepSeconds();
  return seconds ? QString("First step: %1").arg(aboutDuration(*seconds)) : QString("First step: not finished yet");
}

namespace {

// Returns where a log can get `what` from; empty if there is nothing to say.
QString sourceOf(const QString& what) {
  static const QStringList kSources = QString::fromUtf8(asset("palette/data_sources.txt")).split('\n');
  for (const QString& line : kSources)
    if (line.startsWith(what + " = ")) return line.section(" = ", 1);
  return {};
}

}  // namespace

QString notInLogNotice(const RunInfo& info, const QString& what) {
  if (info.all_layers_dense()) return QString("Not in this run, whose layers are all dense: %1").arg(what);
  // A log is named without its path, which the status line shows as tool tip.
  const QString source = QString::fromStdString(info.source);
  const QString name = source.mid(source.lastIndexOf(QLatin1Char('/')) + 1);
  const QString source_of_it = info.config_toml.empty() ? sourceOf(what) : QString();
  return kNotIn + QString("%1: %2").arg(name.isEmpty() ? QString("this run") : name, what) +
         (source_of_it.isEmpty() ? QString() : QStringLiteral("\n") + source_of_it);
}

}  // namespace moescope
