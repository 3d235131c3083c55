#include "widgets/overview/health_banner.h"

#include <QApplication>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>
#include <algorithm>

#include "core/config/config_field.h"
#include "core/files/assets.h"
#include "core/findings/health.h"
#include "core/frame/frame.h"
#include "widgets/look/setting_labels.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/overview/findings_panel.h"
#include "widgets/overview/sentence_links.h"
#include "widgets/overview/verdict_tiles.h"
#include "widgets/panel/controls.h"
#include "widgets/panel/explain_card.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

namespace {

QStringList textsOf(const std::vector<std::string>& texts) {
  QStringList out;
  for (const std::string& text : texts) out << QString::fromStdString(text);
  return out;
}

}  // namespace

HealthBanner::HealthBanner(Selection* selection, FindingsWatch* watch, QWidget* parent)
    : QFrame(parent), selection_(selection), watch_(watch) {
  setObjectName("health_banner");
  setAccessibleName("Health of the router");
  setFocusPolicy(Qt::StrongFocus);
  setToolTip("A click shows the layer, the expert and the step");
  buildLine();
  connect(watch_, &FindingsWatch::changed, this, &HealthBanner::fill);
  connect(selection_, &Selection::focusChanged, this, &HealthBanner::fill);
  connect(selection_, &Selection::timeChanged, this, &HealthBanner::place);  // the sentence names its step
  connect(selection_, &Selection::dataChanged, this, [this] {
    if (selection_->history() != shown_) fill();  // other changes arrive with the findings
  });
  fill();
}

void HealthBanner::buildLine() {
  word_ = new QLabel(this);
  other_verdict_ = new QLabel(this);
  words_ = new QLabel(this);
  words_->setTextFormat(Qt::RichText);
  words_->setTextInteractionFlags(Qt::LinksAccessibleByMouse | Qt::LinksAccessibleByKeyboard);
  words_->setObjectName("health_words");
  words_->installEventFilter(this);
  connect(words_, &QLabel::linkActivated, this, &HealthBanner::follow);
  balance_ = new FittedLabel(this);
  balance_->setRole(QPalette::PlaceholderText);
  balance_->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
  texts_ = new FlatCombo(this);
  texts_->setObjectName("health_texts");
  texts_->setAccessibleName("Texts on which the router is judged");
  texts_->setToolTip(texts_->accessibleName());
  texts_->hide();
  connect(texts_, &QComboBox::currentIndexChanged, this, &HealthBanner::fill);
  help_ = new QPushButton("What would help", this);
  help_->hide();
  connect(help_, &QPushButton::clicked, this, [this] { openCard(help_, help_->text(), &HealthBanner::advice); });
  explain_ = new QToolButton(this);
  explain_->setText(QStringLiteral("?"));
  explain_->setAutoRaise(true);
  explain_->setAccessibleName("How the verdict is found, and the settings of the run");
  explain_->setToolTip(explain_->accessibleName());
  connect(explain_, &QToolButton::clicked, this, [this] { openCard(explain_, "Health", &HealthBanner::explanation); });
  followFont(this, [this] {
    for (QLabel* word : {word_, other_verdict_}) word->setFont(semibold(QApplication::font()));
    balance_->setFont(typeFont(Type::secondary));
    updateGeometry();
    place();
  });
}

void HealthBanner::addTiles() {
  tiles_ = new VerdictTiles(selection_, watch_, this);
  tiles_->show();
  updateGeometry();
  place();
}

int HealthBanner::lineHeight() const {
  return withType(kVerdictHeight, fontMetrics());
}

QSize HealthBanner::sizeHint() const {
  return {600, lineHeight() + (tiles_ && !tiles_->isHidden() ? tiles_->sizeHint().height() : 0)};
}

QSize HealthBanner::minimumSizeHint() const {
  const int marks = 3 * kSpace12 + withType(kMarkSize, fontMetrics());
  const int texts = texts_->isHidden() ? 0 : texts_->sizeHint().width() + kSpace8;
  const int other = QFontMetrics(word_->font()).horizontalAdvance(other_word_);
  return {marks + word_->sizeHint().width() + other + texts + explain_->sizeHint().width(), sizeHint().height()};
}

// Places the parts by hand, because a layout would rearrange the whole workspace whenever a figure changes. The
// settings are hidden before the sentence gets shorter.
void HealthBanner::place() {
  const int line = lineHeight(), mark = withType(kMarkSize, fontMetrics());
  const auto put = [line](QWidget* widget, int x, int width, int height) {
    widget->setGeometry(x, (line - height) / 2, width, height);
  };
  int right = width() - kSpace8;
  const QSize explain = explain_->sizeHint();
  put(explain_, right -= explain.width(), explain.width(), explain.height());
  if (!texts_->isHidden()) {
    const QSize texts = texts_->sizeHint();
    put(texts_, right -= texts.width() + kSpace8, texts.width(), std::min(texts.height(), line - kSpace8));
  }
  int left_x = kSpace12 + mark + kSpace8;
  const auto place_verdict = [&](QLabel* verdict) {
    const int word = verdict->text().isEmpty() ? 0 : verdict->sizeHint().width();
    put(verdict, left_x, word, line);
    left_x += word + (word > 0 ? kSpace8 : 0);
  };
  place_verdict(word_);
  if (!help_->isHidden()) {
    const QSize help = help_->sizeHint();
    put(help_, right -= help.width() + kSpace8, help.width(), std::min(help.height(), line - kSpace8));
  }
  const QFontMetrics metrics(words_->font());
  const int slack = kSpace4;  // rich text is a little wider than plain text
  fitOther(right - left_x - kSpace8 - 2 * slack);
  const int other_width = other_verdict_->text().isEmpty() ? 0 : other_verdict_->sizeHint().width() + kSpace16;
  shown_text_ = fittingText(sentences(), metrics, right - left_x - other_width - kSpace8 - slack);
  const int words = shown_text_.isEmpty() ? 0 : metrics.horizontalAdvance(shown_text_) + slack;
  put(words_, left_x, words, line);
  if (const QString html = withLinks(shown_text_); words_->text() != html) words_->setText(html);
  left_x += words + kSpace16;
  place_verdict(other_verdict_);
  put(balance_, left_x, std::max(0, right - kSpace8 - left_x), line);
  if (tiles_) tiles_->setGeometry(1, line, width() - 2, height() - line - 1);
}

// Chooses the longest form of the cause of the other run's verdict that fits beside a sentence: the longest one, or, if
// the other verdict is the worse one, the shortest.
void HealthBanner::fitOther(int room) {
  const QFontMetrics plain(words_->font()), bold(word_->font());
  room -= bold.horizontalAdvance(other_word_) + kSpace16;
  QString chosen;
  const QStringList all_sentences = sentences();
  for (const QString& sentence :
       all_sentences.mid(worst_ > health_.verdict ? std::max<qsizetype>(0, all_sentences.size() - 1) : 0))
    for (const QString& cause : other_causes_)
      if (chosen.isEmpty() && plain.horizontalAdvance(sentence + QStringLiteral("  ") + cause) <= room) chosen = cause;
  const QString html = QStringLiteral("%1&nbsp; <span style='font-weight:400; color:%2'>%3</span>")
                           .arg(other_word_, palette().color(QPalette::WindowText).name(), chosen.toHtmlEscaped());
  if (const QString text = chosen.isEmpty() ? other_word_ : html; other_verdict_->text() != text)
    other_verdict_->setText(text);
}

bool HealthBanner::event(QEvent* event) {
  const bool done = QFrame::event(event);
  if (event->type() == QEvent::LayoutRequest || event->type() == QEvent::Resize || event->type() == QEvent::Show)
    place();
  return done;
}

// Shows all warnings of the other runs, the worst last with its cause; without a warning the worst verdict.
void HealthBanner::fillOtherVerdict() {
  std::vector<std::pair<int, const Health*>> healths;
  for (int run = 0; run < std::ssize(selection_->histories()); ++run)
    if (const Health* health = watch_->health(run); health && run != selection_->run() && !selection_->isNoiseTwin(run))
      healths.emplace_back(run, health);
  std::ranges::stable_sort(healths, [](const auto& a, const auto& b) { return a.second->verdict > b.second->verdict; });
  other_causes_.clear();
  worst_ = judged_ ? health_.verdict : HealthVerdict::unknown;
  QStringList words, tips;
  for (const auto& [run, health] : healths) {
    if (!words.isEmpty() && health->verdict < HealthVerdict::attention) break;
    QString word = runLetter(*selection_, run) + QStringLiteral("  ") + health_verdict_name(health->verdict);
    if (health->last_step >= 0 && health->last_step != selection_->shownStepOf(*selection_->histories()[run]))
      word += ", " + selection_->rangeText({health->last_step, health->last_step});
    words.prepend(word);
    tips.prepend(runLetter(*selection_, run) + ": " + QString::fromStdString(health->sentence));
  }
  other_word_ = words.join(QStringLiteral(" \u00b7 "));
  if (healths.empty()) return;
  const Health& worst = *healths.front().second;
  other_run_ = healths.front().first;
  other_verdict_->setToolTip(tips.join('\n') + "\nA click shows run " + runLetter(*selection_, other_run_));
  if (worst.verdict >= HealthVerdict::attention)
    other_causes_ = QStringList{QString::fromStdString(worst.sentence)} + textsOf(worst.shorter);
  paintWord(other_verdict_, signOf(worst.verdict));
  worst_ = std::max(worst_, worst.verdict);
}

void HealthBanner::paintWord(QLabel* word, Sign sign) const {
  QPalette colored = palette();
  colored.setColor(QPalette::WindowText, signColor(sign, isDark(palette())));
  word->setPalette(colored);
}

QString HealthBanner::verdictWord() const {
  if (!shown_) return {};
  const QString run =
      selection_->histories().size() > 1 ? runLetter(*selection_, selection_->run()) + QStringLiteral("  ") : QString();
  if (shown_->steps().empty()) return run + QString("Waiting");
  return judged_ ? run + QString(health_verdict_name(health_.verdict)) : run;
}

QStringList HealthBanner::sentences() const {
  if (!shown_) return {};
  if (shown_->steps().empty()) return {"No step yet. Space runs and pauses a training.", "No step yet."};
  if (!judged_) return {"Reading the run"};
  QStringList forms = QStringList{QString::fromStdString(health_.sentence)} + textsOf(health_.shorter);
  if (!selection_->following() && health_.last_step >= 0 && health_.last_step != selection_->step())
    for (QString& form : forms)
      form.prepend(QString("At %1: ").arg(selection_->rangeText({health_.last_step, health_.last_step})));
  return forms;
}

void HealthBanner::fill() {
  const History* history = selection_->history();
  shown_ = history;
  setVisible(history && !(tiles_ && comparesForced(*selection_)));  // else the Overview has verdicts on the losses
  if (!history) return;
  fillTexts();
  const Health* health = watch_->health(selection_->run());
  judged_ = health != nullptr;
  health_ = judged(health);
  word_->setText(verdictWord());
  paintWord(word_, sign());
  fillOtherVerdict();
  balance_->setTexts(textsOf(health_.balance));
  help_->setVisible(!health_.help.empty());
  setCursor(judged_ && health_.layer >= 0 ? Qt::PointingHandCursor : Qt::ArrowCursor);
  setAccessibleDescription(
      (text() + QLatin1Char(' ') + other_word_ + QLatin1Char(' ') + other_causes_.value(0)).trimmed());
  place();
  update();
}

// Lists the domains of a checkpoint's run; hides the list for other runs.
void HealthBanner::fillTexts() {
  QStringList names;
  const RunInfo& info = shown_->info();
  if (run_origin(info) == RunOrigin::checkpoint && info.domains.size() > 1) {
    names << "all texts" << textsOf(info.domains);
  }
  QStringList shown;
  for (int i = 0; i < texts_->count(); ++i) shown << texts_->itemText(i);
  if (names == shown) return;
  const QSignalBlocker quiet(texts_);
  texts_->clear();
  texts_->addItems(names);
  texts_->setVisible(!names.isEmpty());
  updateGeometry();
}

Health HealthBanner::judged(const Health* all) {
  if (!all) return {};
  const int domain = texts_->currentIndex() - 1;
  if (domain < 0) return *all;
  if (domain_health_.run != shown_ || domain_health_.sequence != shown_->sequence() || domain_health_.domain != domain)
    domain_health_ = {shown_, shown_->sequence(), domain, judge_texts(*shown_, static_cast<std::size_t>(domain))};
  return domain_health_.health;
}

void HealthBanner::follow(const QString& link) {
  link_followed_ = true;
  const QString kind = link.section(QLatin1Char(':'), 0, 0);
  const qint64 number = link.section(QLatin1Char(':'), 1).toLongLong();
  if (kind == QLatin1String("step")) return selection_->setStep(number);
  if (kind == QLatin1String("layer")) return selection_->setLayer(to_int(number));
  selection_->setLayer(health_.layer);
  selection_->setExpert(to_int(number));
}

// Sets the step last, since opening the finding moves the cursor to the last step of the finding.
void HealthBanner::showWorst() {
  if (!judged_ || health_.layer < 0) return;
  const Health shown = health_;
  if (!shown.finding.empty()) emit findingWanted(QString::fromStdString(shown.finding));
  selection_->setLayer(shown.layer);
  if (!shown.experts.empty()) selection_->setExpert(shown.experts.front());
  if (shown.first_step >= 0) selection_->setStep(shown.first_step);
}

void HealthBanner::paintEvent(QPaintEvent*) {
  const bool dark = isDark(palette());
  const Colors& c = colors(dark);
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  QPainterPath frame;
  frame.addRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), kRadiusPanel, kRadiusPanel);
  painter.fillPath(frame, QColor(c.surface));
  const int line = lineHeight();
  painter.setClipRect(QRect(0, 0, width(), line));
  painter.fillPath(frame, signGround(signOf(worst_), dark));
  painter.setClipping(false);
  if (height() > line) {
    painter.setPen(QColor(c.hairline));
    painter.drawLine(QPointF(1, line - 0.5), QPointF(width() - 1, line - 0.5));
  }
  painter.setPen(QPen(QColor(showsFocus(*this) ? c.accent : c.hairline), showsFocus(*this) ? kFocusLine : 1));
  painter.drawPath(frame);
  const int mark = withType(kMarkSize, fontMetrics());
  paintSign(painter, QRectF(kSpace12, (line - mark) / 2.0, mark, mark), signOf(worst_), dark);
}

// Accepts the press, so that the release is received as well.
void HealthBanner::mousePressEvent(QMouseEvent* event) {
  event->setAccepted(event->button() == Qt::LeftButton);
}

void HealthBanner::mouseReleaseEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton || !QRect(0, 0, width(), lineHeight()).contains(event->pos())) return;
  if (other_verdict_->geometry().contains(event->pos())) return selection_->setRun(other_run_);
  showWorst();
}

// Treats a click on the words like a click on the banner, except on a link.
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
  if (event->type() == QEvent::PaletteChange && explain_) {
    words_->clear();  // the text contains the colour of the links
    fill();
  }
  QFrame::changeEvent(event);
}

QString HealthBanner::advice() const {
  const bool is_own = shown_->settings_at_start()->config();
  const auto labelled = [is_own](QString text) {  // the advice has names without sections; those of a log are its own
    if (!is_own) return text;
    for (const ConfigField& field : config_fields())
      text.replace(QStringLiteral(" %1 ").arg(QString::fromStdString(std::string(field.name()))),
                   QStringLiteral(" %1 ").arg(QString::fromStdString(field.key)));
    return withSettingLabels(text);
  };
  const auto paragraph = [this](int run, const QString& text) {
    const QString letter = selection_->histories().size() > 1 ? runLabel(*selection_, run) + ": " : QString();
    return QStringLiteral("<p>%1</p>").arg((letter + text).toHtmlEscaped());
  };
  QString html = paragraph(selection_->run(), labelled(QString::fromStdString(health_.help)));
  if (!health_.remedies.empty()) html += QStringLiteral("<ul>");
  for (const Remedy& remedy : health_.remedies)
    html +=
        QStringLiteral("<li><b>%1</b>: %2</li>")
            .arg(labelled(QStringLiteral(" %1 ").arg(QString::fromStdString(remedy.name))).trimmed().toHtmlEscaped(),
                 QString::fromStdString(remedy.text).toHtmlEscaped());
  if (!health_.remedies.empty()) html += QStringLiteral("</ul>");
  if (!health_.balance.empty()) html += paragraph(selection_->run(), QString::fromStdString(health_.balance.front()));
  for (const Finding& finding : watch_->findings())
    if (finding.run == shown_->info().run && finding_id(finding) == health_.finding)
      html += QStringLiteral("<p><b>%1.</b> %2</p>")
                  .arg(printedText(finding.title).toHtmlEscaped(),
                       withSettingLabels(printedText(finding.meaning)).toHtmlEscaped());
  for (int run = 0; run < std::ssize(selection_->histories()); ++run) {
    const Health* health = run == selection_->run() ? nullptr : watch_->health(run);
    if (!health) continue;
    const bool is_evidence = !health_.remedies.empty() && health->router >= HealthVerdict::healthy &&
                             health->router < health_.router && !health->balance.empty();  // that such a setting helps
    const std::string text = (is_evidence ? health->balance.front() + " " : "") + health->help;
    if (!text.empty())
      html += paragraph(run, QString("%1. %2").arg(health_verdict_name(health->router), QString::fromStdString(text)));
  }
  return html;
}

QString HealthBanner::explanation() const {
  return QString::fromUtf8(asset("panels/router_verdict.html")).arg(kSettlingSteps) + textsExplained() + allSettings() +
         QString("<p>Read: %1.</p>").arg(watch_->read().toHtmlEscaped()) + watch_->checksHtml();
}

QString HealthBanner::textsExplained() const {
  if (texts_->isHidden()) return {};
  return QString::fromUtf8(asset("panels/texts_verdict.html")).arg(kMinToJudge);
}

QString HealthBanner::allSettings() const {
  const History* history = selection_->history();
  if (!history) return {};
  const auto known = history->settings_at_start();
  const LogSettings& settings = known->log();
  if (settings.empty())
    return history->info().config_toml.empty() ? QString("<p>The log has no line of settings.</p>")
                                               : QString("<p>All settings of the run are in its set-up (F2).</p>");
  const bool is_log = run_origin(history->info()) == RunOrigin::log;
  QString html = QString("<p>Settings of the run%1:</p><table>").arg(is_log ? ", from the first line of its log" : "");
  for (const auto& [name, value] : settings)
    html +=
        QStringLiteral("<tr><td>%1&nbsp;&nbsp;</td><td>%2</td></tr>")
            .arg(QString::fromStdString(name).toHtmlEscaped(), QString::fromStdString(value).left(200).toHtmlEscaped());
  return html + QStringLiteral("</table>");
}

void HealthBanner::openCard(QWidget* under, const QString& title, QString (HealthBanner::*html)() const) {
  const QPoint at = under->mapToGlobal(QPoint(0, under->height()));
  auto* card = ExplainCard::open(window(), at, title, [this, html] { return (this->*html)(); });
  connect(this, &QObject::destroyed, card, &QObject::deleteLater);
}

}  // namespace moescope
