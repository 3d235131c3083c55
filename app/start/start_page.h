// The page of the Overview while nothing is open: three ways to begin, a training, the questions that the Overview
// answers, and sample logs.
#pragma once

#include <QScrollArea>
#include <QStringList>
#include <functional>

class QBoxLayout;
class QComboBox;
class QPushButton;

namespace moescope {

class FittedLabel;

class StartPage : public QScrollArea {
  Q_OBJECT

 public:
  explicit StartPage(QWidget* parent = nullptr);

  // Sets the function that returns one-line descriptions of the cost of a preset, the longest first.
  void setCost(std::function<QStringList(const QString& preset)> cost);
  void showLast(const QStringList& files);  // offers the files that were open last; empty: offers none

 signals:
  void lessonRequested();
  void openRequested();
  void compareRequested();
  void trainRequested(QString preset);
  void setupRequested();
  void sampleRequested(QString name);
  void lastRequested(QStringList files);

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void makeHead(QBoxLayout* column);
  void makeDoors(QBoxLayout* column);
  void makeTraining(QBoxLayout* column);
  void makeExamples(QBoxLayout* column);
  void makeSamples(QBoxLayout* column);
  void showCost();

  QWidget* page_;
  QComboBox* presets_;
  FittedLabel* cost_;
  QPushButton* last_;
  QStringList last_files_;
  std::function<QStringList(const QString&)> costOf_;
};

}  // namespace moescope
