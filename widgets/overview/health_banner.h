// The verdict on the routers of the active run, in one line above the panels. Layers, experts and steps in the sentence
// are links; a click elsewhere selects the worst layer and opens its finding. At the right are the settings that
// balance the router and a button for a remedy, if there is one. No text is cut: the sentence has shorter forms, and
// the settings are hidden first. In the Overview the banner also has four tiles with figures. For a checkpoint it
// judges all texts, or the texts of a chosen domain.
#pragma once

#include <QComboBox>
#include <QFrame>
#include <QLabel>
#include <QPushButton>
#include <QToolButton>

#include "widgets/look/fitted_text.h"
#include "widgets/look/sign.h"
#include "widgets/overview/findings_watch.h"

namespace moescope {

class HealthBanner : public QFrame {
  Q_OBJECT

 public:
  HealthBanner(Selection* selection, FindingsWatch* watch, QWidget* parent = nullptr);
  void addTiles();  // adds the tiles below the line
  // The whole sentence without links
  QString text() const { return (verdictWord() + QStringLiteral(" ") + sentences().value(0)).trimmed(); }
  // Returns the form of the sentence that fits.
  QString shownText() const { return (word_->text() + QStringLiteral(" ") + shown_text_).trimmed(); }
  QString shownBalance() const { return balance_->shownText(); }
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;

 signals:
  void findingWanted(const QString& id);  // the finding with this finding_id() is to be opened

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void changeEvent(QEvent* event) override;
  bool event(QEvent* event) override;

 private:
  int lineHeight() const;
  void buildLine();
  void place();
  void fitOther(int room);
  void fill();
  void fillTexts();
  Health judged(const Health* all);
  void showWorst();
  void follow(const QString& link);
  Sign sign() const { return signOf(judged_ ? health_.verdict : HealthVerdict::unknown); }
  void paintWord(QLabel* word, Sign sign) const;
  void fillOtherVerdict();
  QString verdictWord() const;
  QStringList sentences() const;  // long to short
  QString advice() const;
  QString explanation() const;
  QString textsExplained() const;
  QString allSettings() const;
  void openCard(QWidget* under, const QString& title, QString (HealthBanner::*html)() const);

  Selection* selection_;
  FindingsWatch* watch_;
  Health health_;
  int other_run_ = -1;                            // run of the verdict in `other_verdict_`
  HealthVerdict worst_ = HealthVerdict::unknown;  // of all runs: a healthy run does not colour the banner of a sick one
  bool judged_ = false;
  struct OfDomain {
    const History* run = nullptr;  // only compared
    std::uint64_t sequence = 0;
    int domain = -1;
    Health health = {};
  } domain_health_;                 // the last verdict on one domain
  bool link_followed_ = false;      // the present click followed a link
  const History* shown_ = nullptr;  // shown run; only compared
  QString shown_text_, other_word_;
  QStringList other_causes_;                // of the other run's verdict, long to short
  QLabel *word_, *other_verdict_, *words_;  // verdict, the worst one of the other runs, sentence
  FittedLabel* balance_;
  QComboBox* texts_;  // all texts, and each domain; hidden for runs in training and logs
  QPushButton* help_;
  QToolButton* explain_;
  QWidget* tiles_ = nullptr;
};

}  // namespace moescope
