#include "widgets/panel/panel.h"

#include <QAbstractButton>
#include <QComboBox>
#include <QContextMenuEvent>
#include <QPainter>
#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "widgets/panel/explain_card.h"
#include "widgets/panel/metric_text.h"
#include "widgets/plots/color_scale.h"
#include "widgets/plots/value_tile.h"

namespace moescope {

// Asks for its text while painting, so that a hidden panel computes nothing.
class Panel::StatusLine : public QWidget {
 public:
  explicit StatusLine(Panel* panel) : QWidget(panel), panel_(panel) {
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Preferred);
  }
  QSize sizeHint() const override { return minimumSizeHint(); }
  QSize minimumSizeHint() const override {
    // Room for the kind also while it is not shown, so that controls stay where they are when data come.
    const QString kind = kindText(panel_->kind().value_or(panel_->provenance_));
    return {fontMetrics().horizontalAdvance(kind) + 2, fontMetrics().height() + 4};
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    painter.setPen(mutedText(palette()));
    QStringList parts = panel_->status().split(QStringLiteral(", "), Qt::SkipEmptyParts);
    if (const auto kind = panel_->kind()) parts.prepend(kindText(*kind));
    QString whole = parts.value(0), shown = whole;  // as many parts as fit
    bool fits = true;
    for (const QString& part : parts.mid(1)) {
      whole += QStringLiteral(", ") + part;
      fits = fits && fontMetrics().horizontalAdvance(whole) <= width();
      if (fits) shown = whole;
    }
    painter.drawText(rect(), Qt::AlignLeft | Qt::AlignVCenter,
                     fontMetrics().elidedText(shown, Qt::ElideRight, width()));
    if (toolTip() != whole) setToolTip(whole);
  }

 private:
  static QString kindText(Provenance kind) { return tr(provenance_name(kind)); }
  Panel* panel_;
};

Panel::Panel(Selection* selection, const QString& title, Provenance provenance, QWidget* parent)
    : QWidget(parent), selection_(selection), title_(title), provenance_(provenance) {
  setAccessibleName(title);
  setFocusPolicy(Qt::StrongFocus);
  column_ = new QVBoxLayout(this);
  column_->setContentsMargins(4, 2, 4, 4);
  column_->setSpacing(2);
  header_ = new QHBoxLayout;
  header_->setSpacing(5);
  column_->addLayout(header_);
  rows_ = new QVBoxLayout;
  rows_->setSpacing(2);
  column_->addLayout(rows_);

  title_label_ = new QLabel(title, this);
  QFont bold = title_label_->font();
  bold.setBold(true);
  title_label_->setFont(bold);
  header_->addWidget(title_label_);
  status_line_ = new StatusLine(this);
  header_->addWidget(status_line_, 1);

  explain_button_ = new QToolButton(this);
  explain_button_->setText(QStringLiteral("?"));
  explain_button_->setAutoRaise(true);
  explain_button_->setAccessibleName(tr("Explain %1").arg(title));
  explain_button_->setToolTip(tr("Explanation of this panel: formulas, how to read it, sources"));
  connect(explain_button_, &QToolButton::clicked, this, [this] {
    openCard(explain_button_->mapToGlobal(explain_button_->rect().bottomLeft()), title_, [this] { return explain(); });
  });
  header_->addWidget(explain_button_);

  for (auto signal : {&Selection::dataChanged, &Selection::timeChanged, &Selection::focusChanged})
    connect(selection_, signal, status_line_, qOverload<>(&QWidget::update));
}

std::optional<FigureTarget> Panel::figureAt(QWidget* child, QPoint position) const {
  if (const auto* plot = qobject_cast<const PlotFrame*>(child)) return plot->figureAt(position);
  if (const auto* tile = qobject_cast<const ValueTile*>(child); tile && tile->figure) return tile->figure();
  return std::nullopt;
}

std::optional<FigureTarget> Panel::figureUnder(QPoint position) const {
  if (!selection_->history()) return std::nullopt;
  for (QWidget* at = childAt(mapFromGlobal(position)); at && at != this; at = at->parentWidget())
    if (const auto figure = figureAt(at, at->mapFromGlobal(position))) return figure;
  return std::nullopt;
}

void Panel::explainAt(QPoint position) {
  const auto figure = figureUnder(position);
  if (!figure) return openCard(position, title_, [this] { return explain(); });
  const bool at_cursor = figure->step == selection_->step();  // and stays there when the cursor moves
  openCard(position, QString::fromUtf8(figure->key.info().name), [this, at_cursor, figure = *figure]() mutable {
    const History* history = selection_->history();
    if (at_cursor) figure.step = selection_->step();
    return history ? figureCard(explain_figure(*history, figure)) : QString();
  });
}

void Panel::contextMenuEvent(QContextMenuEvent* event) {
  explainAt(event->globalPos());
}

void Panel::openCard(QPoint at, const QString& title, std::function<QString()> html) {
  ExplainCard* card = ExplainCard::open(window(), at, title, std::move(html));
  connect(card, &ExplainCard::knobRequested, this, &Panel::knobRequested);
  const auto refresh = [card] { card->refresh(); };
  connect(selection_, &Selection::dataChanged, card, refresh);
  connect(selection_, &Selection::timeChanged, card, refresh);
  connect(selection_, &Selection::focusChanged, card, refresh);
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
  if (!frame) return target;
  for (const RouterFrame& router : frame->routers) {  // nobody chosen: the fullest
    if (router.layer != target.layer || router.tokens_per_expert.empty()) continue;
    target.expert =
        static_cast<int>(std::ranges::max_element(router.tokens_per_expert) - router.tokens_per_expert.begin());
  }
  return target;
}

QString Panel::metricCard(const MetricInfo& info) const {
  const History* history = selection_->history();
  if (!history) return moescope::metricCard(info);
  FigureTarget wanted = target(info);
  Explanation figure = explain_figure(*history, wanted);
  if (figure.where.empty() && wanted.layer != kWholeRun) {
    wanted.layer = kWholeRun;
    figure = explain_figure(*history, wanted);
  }
  return figureCard(figure);
}

QString Panel::metricCards(std::initializer_list<FigureKey> figures) const {
  QString cards;
  for (const FigureKey& figure : figures) cards += metricCard(figure.info());
  return cards;
}

namespace {

// What a control is set to, as words; empty: nothing that a reader of a picture needs.
QString settingOf(const QWidget* control) {
  if (!control->isVisibleTo(control->parentWidget())) return {};
  if (const auto* choice = qobject_cast<const QComboBox*>(control)) return choice->currentText();
  if (const auto* button = qobject_cast<const QAbstractButton*>(control))
    return button->isCheckable() && button->isChecked() ? QString(button->text()).remove('&') : QString();
  if (const auto* label = qobject_cast<const QLabel*>(control)) return label->text();
  QStringList parts;
  for (const QWidget* inner : control->findChildren<QWidget*>(QString(), Qt::FindDirectChildrenOnly))
    if (const QString part = settingOf(inner); !part.isEmpty()) parts << part;
  return parts.join(' ');
}

}  // namespace

std::optional<Provenance> Panel::kind() const {
  const History* history = selection_->history();
  if (provenance_ == Provenance::measured_here && (!history || history->steps().empty())) return std::nullopt;
  return history ? provenance_in(history->info(), provenance_) : provenance_;
}

QString Panel::caption() const {
  QStringList parts;
  if (const auto shown = kind()) parts << tr(provenance_name(*shown));
  if (const QString now = status(); !now.isEmpty()) parts << now;
  for (const QWidget* control : controls_)
    if (const QString setting = settingOf(control); !setting.isEmpty()) parts << setting;
  parts = parts.join(QStringLiteral(", ")).split(QStringLiteral(", "));
  parts.removeDuplicates();  // what a control is set to, the header may say as well
  return parts.join(QStringLiteral(", "));
}

QRect Panel::bodyRect() const {
  const QLayout* above = rows_->count() > 0 ? static_cast<QLayout*>(rows_) : header_;
  const int top = above->geometry().bottom() + 1 + column_->spacing();
  return rect().adjusted(0, top, 0, 0);
}

void Panel::setTitleShown(bool shown) {
  title_label_->setVisible(shown);
}

double Panel::lastPaintMs() const {
  double sum = 0;
  for (const PlotFrame* plot : findChildren<PlotFrame*>()) sum += plot->lastPaintMs();
  return sum;
}

QString Panel::status() const {
  return {};
}

void Panel::addControl(QWidget* control) {
  controls_.push_back(control);
  row_of_.push_back(kInHeader);
  header_->insertWidget(header_->count() - 1, control);
  // What is chosen there is in the status.
  const auto say_anew = [this] { status_line_->update(); };
  if (auto* box = qobject_cast<QComboBox*>(control)) connect(box, &QComboBox::currentIndexChanged, this, say_anew);
  if (auto* button = qobject_cast<QAbstractButton*>(control))
    connect(button, &QAbstractButton::toggled, this, say_anew);
}

bool Panel::event(QEvent* event) {
  if (event->type() == QEvent::LayoutRequest || event->type() == QEvent::Resize) arrangeControls();
  return QWidget::event(event);
}

void Panel::hideEvent(QHideEvent* event) {
  if (window()->isVisible()) emit readoutChanged({});  // not while the window closes
  QWidget::hideEvent(event);
}

// Moves the controls only when that changes, so that the layout comes to rest.
void Panel::arrangeControls() {
  const int gap = header_->spacing(), room = contentsRect().width() - 8;  // within the column's margins
  int beside = status_line_->minimumSizeHint().width() + explain_button_->sizeHint().width() + gap;
  if (!title_label_->isHidden()) beside += title_label_->sizeHint().width() + gap;
  std::vector<int> widths;
  for (const QWidget* control : controls_)
    widths.push_back(
        control->isHidden()
            ? 0
            : control->sizeHint().expandedTo(control->minimumSize()).boundedTo(control->maximumSize()).width() + gap);
  std::vector<int> rows(controls_.size(), kInHeader);
  if (std::accumulate(widths.begin(), widths.end(), beside) > room) {
    int row = 0, x = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (x > 0 && x + widths[i] - gap > room) {
        ++row;
        x = 0;
      }
      rows[i] = row;
      x += widths[i];
    }
  }
  if (std::exchange(row_of_, rows) == rows) return;
  while (rows_->count() > 0) {
    const std::unique_ptr<QLayoutItem> row(rows_->takeAt(0));
    while (row->layout()->count() > 0) delete row->layout()->takeAt(0);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    header_->removeWidget(controls_[i]);
    if (rows[i] == kInHeader) {
      header_->insertWidget(header_->count() - 1, controls_[i]);
      continue;
    }
    if (rows[i] == rows_->count()) {
      auto* row = new QHBoxLayout;
      row->setSpacing(gap);
      row->addStretch(1);
      rows_->addLayout(row);
    }
    static_cast<QHBoxLayout*>(rows_->itemAt(rows[i])->layout())->addWidget(controls_[i]);
  }
}

void Panel::addBody(QWidget* body, int stretch) {
  column_->addWidget(body, stretch);
  for (PlotFrame* plot : body->findChildren<PlotFrame*>())
    connect(plot, &PlotFrame::readoutChanged, this, &Panel::readoutChanged);
  if (auto* plot = qobject_cast<PlotFrame*>(body)) {
    connect(plot, &PlotFrame::readoutChanged, this, &Panel::readoutChanged);
    setFocusProxy(plot);
    plot->setAccessibleName(title_);
  }
  status_line_->raise();  // painted last: its text depends on the plots, which find it while painting
}

QString Panel::timeStatus(std::int64_t shown_step, bool arrays) const {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return {};
  QString text = tr("step %1").arg(formatCount(shown_step));
  if (!selection_->following()) text += tr(", held");
  if (arrays && history->kept_every() > 1) text += tr(", drawing 1 of %1 steps").arg(history->kept_every());
  return text;
}

QString noRunNotice() {
  return Panel::tr("No run is open");
}

QString noDataYetNotice() {
  return Panel::tr("No data yet: the first step has not finished");
}

QString notInLogNotice(const RunInfo& info, const QString& what) {
  if (info.all_layers_dense()) return Panel::tr("%1: not in this run, whose layers are all dense").arg(what);
  // A log by its name: where it lies is in the tool tips of the run bar.
  const QString source = QString::fromStdString(info.source);
  const QString name = source.mid(source.lastIndexOf(QLatin1Char('/')) + 1);
  return Panel::tr("%1: not in %2").arg(what, name.isEmpty() ? Panel::tr("this run") : name);
}

}  // namespace moescope
