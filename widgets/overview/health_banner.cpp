#include "widgets/overview/health_banner.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QTextDocumentFragment>

#include "core/telemetry/recording/run_settings.h"
#include "widgets/overview/expert_links.h"
#include "widgets/overview/findings_panel.h"
#include "widgets/panel/explain_card.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

namespace {

constexpr int kEdge = 5;  // width of the coloured edge
constexpr int kGap = 6, kAbove = 3, kRight = 4;

// A shape beside the colour, so that nothing depends on telling colours apart.
QString markOf(HealthVerdict verdict) {
  switch (verdict) {
    case HealthVerdict::unhealthy:
      return QStringLiteral("\u25b2");
    case HealthVerdict::attention:
      return QStringLiteral("\u25c6");
    case HealthVerdict::healthy:
      return QStringLiteral("\u2713");
    case HealthVerdict::too_young:
    case HealthVerdict::unknown:
      break;
  }
  return QStringLiteral("\u25cb");
}

}  // namespace

HealthBanner::HealthBanner(Selection* selection, FindingsWatch* watch, QWidget* parent)
    : QFrame(parent), selection_(selection), watch_(watch) {
  setObjectName("health_banner");
  setAccessibleName(tr("Health of the router"));
  setFocusPolicy(Qt::StrongFocus);
  setBackgroundRole(QPalette::Base);
  setAutoFillBackground(true);
  setToolTip(tr("A click shows the layer, the expert and the step"));
  mark_ = new QLabel(this);
  words_ = new QLabel(this);
  words_->setWordWrap(true);
  words_->setTextFormat(Qt::RichText);
  words_->setTextInteractionFlags(Qt::LinksAccessibleByMouse | Qt::LinksAccessibleByKeyboard);
  words_->setObjectName("health_words");
  words_->installEventFilter(this);
  connect(words_, &QLabel::linkActivated, this, &HealthBanner::follow);
  explain_ = new QToolButton(this);
  explain_->setText(QStringLiteral("?"));
  explain_->setAutoRaise(true);
  explain_->setAccessibleName(tr("How the verdict is found, and the settings of the run"));
  explain_->setToolTip(explain_->accessibleName());
  connect(explain_, &QToolButton::clicked, this, &HealthBanner::openCard);
  connect(watch_, &FindingsWatch::changed, this, &HealthBanner::fill);
  connect(selection_, &Selection::focusChanged, this, &HealthBanner::fill);
  connect(selection_, &Selection::dataChanged, this, [this] {
    if (selection_->history() != shown_) fill();  // other news come with the findings
  });
  fill();
}

QSize HealthBanner::sizeHint() const {
  return {600, heightForWidth(std::max(width(), 600))};
}

QSize HealthBanner::minimumSizeHint() const {
  const QMargins around(kEdge + kGap, kAbove, kRight, kAbove);
  return QSize(mark_->sizeHint().width() + explain_->sizeHint().width() + 2 * kGap, explain_->sizeHint().height())
      .grownBy(around);
}

QRect HealthBanner::wordsRect(int width) const {
  const int left = kEdge + 2 * kGap + mark_->sizeHint().width();
  const int room = std::max(0, width - left - kGap - explain_->sizeHint().width() - kRight);
  return {left, kAbove, room, words_->heightForWidth(room)};
}

int HealthBanner::heightForWidth(int width) const {
  return std::max(minimumSizeHint().height(), wordsRect(width).height() + 2 * kAbove);
}

// By hand: a layout would have all of the workspace arranged anew whenever a figure changes.
void HealthBanner::place() {
  const QSize button = explain_->sizeHint();
  words_->setGeometry(wordsRect(width()));
  mark_->setGeometry({{kEdge + kGap, kAbove}, mark_->sizeHint()});
  explain_->setGeometry({{width() - kRight - button.width(), kAbove}, button});
  if (heightForWidth(width()) != height()) updateGeometry();
}

bool HealthBanner::event(QEvent* event) {
  const bool done = QFrame::event(event);
  if (event->type() == QEvent::LayoutRequest || event->type() == QEvent::Resize || event->type() == QEvent::Show)
    place();
  return done;
}

QString HealthBanner::text() const {
  return QTextDocumentFragment::fromHtml(words_->text()).toPlainText();
}

QColor HealthBanner::color() const {
  const bool dark = isDark(palette());
  switch (judged_ ? health_.verdict : HealthVerdict::unknown) {
    case HealthVerdict::unhealthy:
      return severityColor(Severity::severe, dark);
    case HealthVerdict::attention:
      return severityColor(Severity::warning, dark);
    case HealthVerdict::healthy:
      return QColor(colors(dark).good);
    case HealthVerdict::too_young:
    case HealthVerdict::unknown:
      break;
  }
  return mutedText(palette());
}

QString HealthBanner::settingsText() const {
  QStringList parts;
  for (const StatedSetting& setting : main_settings(*selection_->history(), selection_->history()->steps().last)) {
    if (health_.help.find(setting.name + " = ") != std::string::npos) continue;  // cited already
    parts << QStringLiteral("%1&nbsp;%2")
                 .arg(QString::fromStdString(setting.name).toHtmlEscaped(),
                      QString::fromStdString(setting.value).left(60).toHtmlEscaped());
  }
  return parts.join(QStringLiteral(", "));
}

void HealthBanner::fill() {
  const History* history = selection_->history();
  shown_ = history;
  setVisible(history != nullptr);
  if (!history) return;
  const Health* health = watch_->health(selection_->run());
  judged_ = health != nullptr;
  if (!health || health->finding != health_.finding) all_experts_ = false;
  health_ = health ? *health : Health{};
  const QString run =
      selection_->histories().size() > 1 ? QStringLiteral("<b>%1</b> ").arg(runLetter(selection_->run())) : QString();
  QString words = run;
  if (!judged_) {
    words += tr("Reading the run...");
  } else {
    words += QStringLiteral("<b style='color:%1'>%2:</b> %3")
                 .arg(color().name(), QString::fromUtf8(health_verdict_name(health_.verdict)),
                      withExpertLinks(QString::fromStdString(health_.sentence), health_.experts, all_experts_));
  }
  QStringList below;
  if (!health_.help.empty()) below << QString::fromStdString(health_.help).toHtmlEscaped();
  if (const QString settings = settingsText(); !settings.isEmpty())
    below << QStringLiteral("<span style='color:%1'>%2</span>")
                 .arg(mutedText(palette()).name(), tr("Set: %1").arg(settings));
  if (!below.isEmpty()) words += QStringLiteral("<br>") + below.join(QStringLiteral(" &nbsp; "));
  if (words_->text() == words) return;
  words_->setText(words);
  QPalette colored = palette();
  colored.setColor(QPalette::WindowText, color());
  mark_->setPalette(colored);
  mark_->setText(judged_ ? markOf(health_.verdict) : QStringLiteral("\u25cb"));
  setCursor(judged_ && health_.layer >= 0 ? Qt::PointingHandCursor : Qt::ArrowCursor);
  setAccessibleDescription(text());
  update();
}

void HealthBanner::follow(const QString& link) {
  link_followed_ = true;
  if (link.startsWith(QLatin1String("expert:"))) {
    selection_->setLayer(health_.layer);
    return selection_->setExpert(link.section(QLatin1Char(':'), 1).toInt());
  }
  all_experts_ = !all_experts_;
  fill();
}

// The step last: the finding's text comes with the range of its steps and the newest of them.
void HealthBanner::showWorst() {
  if (!judged_ || health_.layer < 0) return;
  const Health shown = health_;
  if (!shown.finding.empty()) emit findingWanted(QString::fromStdString(shown.finding));
  selection_->setLayer(shown.layer);
  if (!shown.experts.empty()) selection_->setExpert(shown.experts.front());
  if (shown.since >= 0) selection_->setStep(shown.since);
}

void HealthBanner::paintEvent(QPaintEvent* event) {
  QFrame::paintEvent(event);
  QPainter painter(this);
  painter.fillRect(QRect(0, 0, kEdge, height()), color());
  if (!hasFocus()) return;
  painter.setPen(QColor(colors(palette()).accent));
  painter.drawRect(rect().adjusted(0, 0, -1, -1));
}

// Taken, so that the release comes here, too.
void HealthBanner::mousePressEvent(QMouseEvent* event) {
  event->setAccepted(event->button() == Qt::LeftButton);
}

void HealthBanner::mouseReleaseEvent(QMouseEvent* event) {
  if (event->button() == Qt::LeftButton && rect().contains(event->pos())) showWorst();
}

// A click on the words is one on the banner, but on a link.
bool HealthBanner::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() != QEvent::MouseButtonRelease) return QFrame::eventFilter(watched, event);
  link_followed_ = false;
  watched->event(event);
  const auto* mouse = static_cast<QMouseEvent*>(event);
  if (!link_followed_ && mouse->button() == Qt::LeftButton && words_->rect().contains(mouse->pos())) showWorst();
  return true;
}

void HealthBanner::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter || event->key() == Qt::Key_Space)
    return showWorst();
  QFrame::keyPressEvent(event);
}

void HealthBanner::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange && words_) {
    words_->clear();  // its colours are in the text
    fill();
  }
  QFrame::changeEvent(event);
}

QString HealthBanner::explanation() const {
  return tr("<p><b>Is this router healthy?</b> The verdict follows from the findings that go on: <i>unhealthy</i> with "
            "a "
            "severe one, <i>needs attention</i> with a warning of the router, <i>healthy</i> without either. In the "
            "first %1 steps loads change most, so that only severe findings count. While a layer is uneven, or an "
            "expert gets no token, a router is not called healthy, although that is a finding only once it has lasted. "
            "The worst layer is the one with the highest MaxVio over its newest 50 steps together, among those that "
            "the severest findings speak of; all figures beside the verdict are of these steps. Muted findings count "
            "as well.</p><p>A click on the sentence, or Return, chooses that layer, its worst expert and the step "
            "since which it has been so, and opens the finding.</p>")
             .arg(kSettlingSteps) +
         allSettings() + tr("<p>Read: %1.</p>").arg(watch_->read().toHtmlEscaped()) + watch_->checksHtml();
}

QString HealthBanner::allSettings() const {
  const History* history = selection_->history();
  if (!history) return {};
  const LogSettings settings = log_settings(*history);
  if (settings.empty())
    return history->info().config_toml.empty() ? tr("<p>The log has no line of settings.</p>")
                                               : tr("<p>All settings of the run are in its set-up (F2).</p>");
  QString html = tr("<p>Settings of the run, as the first line of its log has them:</p><table>");
  for (const auto& [name, value] : settings)
    html +=
        QStringLiteral("<tr><td>%1&nbsp;&nbsp;</td><td>%2</td></tr>")
            .arg(QString::fromStdString(name).toHtmlEscaped(), QString::fromStdString(value).left(200).toHtmlEscaped());
  return html + QStringLiteral("</table>");
}

void HealthBanner::openCard() {
  const QPoint at = explain_->mapToGlobal(QPoint(0, explain_->height()));
  auto* card = ExplainCard::open(window(), at, tr("Health"), [this] { return explanation(); });
  connect(this, &QObject::destroyed, card, &QObject::deleteLater);
}

}  // namespace moescope
