package shop.ledger

import java.time.{Instant, ZoneId}
import scala.collection.mutable
import shop.ledger.money.Amount

/** A booking that cannot be changed any more. */
final case class Entry(account: String, amount: Amount, at: Instant = Instant.now())

sealed trait Problem
case object Overdrawn extends Problem
case class Unknown(account: String) extends Problem

/** Keeps entries by account, in memory. */
class Ledger(zone: ZoneId) extends AutoCloseable {
  private val entries = mutable.Map.empty[String, Vector[Entry]]

  val limit: Int = 10_000

  /** Adds an entry.
    *
    * @return the new balance, or why there is none
    */
  def book(entry: Entry): Either[Problem, Amount] = {
    val known = entries.getOrElse(entry.account, Vector.empty)
    if (known.size >= limit) Left(Overdrawn)
    else {
      entries.update(entry.account, known :+ entry)
      Right(balance(entry.account))
    }
  }

  def balance(account: String): Amount =
    entries.getOrElse(account, Vector.empty).map(_.amount).foldLeft(Amount.zero)(_ + _)

  private def check(account: String): Option[Problem] =
    Option.when(!entries.contains(account))(Unknown(account))

  override def close(): Unit = entries.clear()
}

object Ledger {
  type Accounts = Map[String, Vector[Entry]]

  def apply(): Ledger = new Ledger(ZoneId.systemDefault())

  implicit val newestFirst: Ordering[Entry] = Ordering.by[Entry, Long](_.at.toEpochMilli).reverse
}
