"""One line of meaning for every metric. A metric without a line cannot be logged."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

GATES = (
    *("parse", "contract", "determinism", "termination", "not-trivial", "solvable", "secret", "hint-safe", "novel"),
    "judge",
)

FAULTS = ("load", "exception", "contract", "timeout", "memory", "output", "exit", "protocol")

_FAULTS = {
    f"environments/faults/{kind}": f"Episodes that ended in an environment's fault of the kind `{kind}`; left out if 0."
    for kind in FAULTS
}
_REJECTED = {f"designer/rejected/{gate}": f"Attempts of the round that the gate `{gate}` rejected." for gate in GATES}

METRICS: Mapping[str, str] = MappingProxyType(
    {
        # The run
        "round": "Number of the design round that the iteration belongs to.",
        "policy_version": "Optimiser steps applied to the weights so far.",
        "tokens/sampled": "Tokens of programs, hints and plays sampled in the iteration.",
        # Agent
        "agent/plain_win_rate": "Share of plain episodes with a positive return, each environment counting the same.",
        "agent/plain_win_rate_stderr": "Standard error of that share over environments.",
        "agent/hinted_win_rate": "Share of hinted episodes with a positive return, each environment counting the same.",
        "agent/hinted_win_rate_stderr": "Standard error of that share over environments.",
        "agent/plain_return": "Mean return of plain episodes, each environment counting the same.",
        "agent/plain_return_stderr": "Standard error of that mean over environments.",
        "agent/hinted_return": "Mean return of hinted episodes, each environment counting the same.",
        "agent/hinted_return_stderr": "Standard error of that mean over environments.",
        "agent/return_spread": "Mean over environments of the standard deviation of plain returns within one.",
        "agent/episodes": "Plain episodes with a return.",
        "agent/turns": "Mean turns of an episode.",
        "agent/reply_tokens": "Mean tokens of one reply.",
        "agent/thinking_ended_share": "Share of replies whose thinking was ended at `agent.max_thinking_tokens`.",
        "agent/episode_tokens": "Mean tokens of one episode, observations included.",
        "agent/cut_share": "Share of episodes that ended because a reply reached its token budget.",
        "agent/turn_limit_share": "Share of episodes that ended because their turns were used up.",
        "agent/context_full_share": "Share of episodes that ended because the context could not hold another turn.",
        "agent/calls": "Mean tool calls of an episode, those that could not be read included.",
        "agent/malformed_calls": "Share of calls that could not be read: not executed, the model was told why.",
        "agent/refused_calls": "Share of calls that named no tool or did not fit its schema: not executed.",
        # Environments
        "environments/played": "Environments that were played in the iteration.",
        "environments/regret": "Mean over environments of mean hinted return minus mean plain return, same seeds.",
        "environments/regret_stderr": "Standard error of that mean over environments.",
        "environments/mastered": "Share of the round's environments that are mastered.",
        "environments/frontier": "Share of the round's environments that are at the frontier.",
        "environments/unsolvable": "Share of the round's environments that are unsolvable.",
        "environments/faults": "Episodes that ended in a fault of the environment.",
        **_FAULTS,
        "environments/infrastructure_faults": "Episodes that ended in a fault of the host, after their retry.",
        "environments/retried": "Plays that failed once and were played again on their seed.",
        "environments/dropped_seeds": "Seeds that were dropped from both arms because a play failed twice.",
        # Designer
        "designer/attempts": "Designer completions of the round.",
        "designer/validity": "Share of the round's attempts that became environments.",
        "designer/first_attempt_validity": "Share of the round's slots whose first attempt became an environment.",
        "designer/executable": "Share of the round's attempts whose program passed the gate `contract`.",
        "designer/executable_at_first": "The same of their first replies, before any repair turn.",
        "designer/empty_slots": "Slots of the round that no attempt filled.",
        "designer/truncated": "Attempts of the round that reached the token budget.",
        "designer/prompts_too_long": "Attempts of the round whose prompt left no room for a program.",
        "designer/host_faults": "Attempts that the host failed twice or an endpoint did not answer; not trained on.",
        "designer/no_verdicts": "Attempts that the judge gave no verdict on; not accepted, not trained on.",
        "designer/hint_failures": "Valid programs of the round for which no safe hint was found.",
        "designer/reply_tokens": "Mean tokens of an attempt.",
        "designer/reward": "Mean designer reward of the attempts judged in the iteration.",
        "designer/reward_valid": "Mean designer reward of the attempts judged that became environments.",
        "designer/unjudged": "Attempts whose window is over but that nothing was measured of, or that are dropped.",
        **_REJECTED,
        # Endpoint
        "endpoint/replies": "Replies of the endpoint that the iteration used.",
        "endpoint/repeated": "Those of them that the run had from an earlier start, so that nothing was paid for them.",
        "endpoint/retries": "Requests of the iteration that were sent again after they had failed.",
        "endpoint/unmetered": "Replies of the iteration whose tokens the endpoint did not report.",
        "endpoint/prompt_tokens": "Tokens of the prompts of the replies that the iteration used.",
        "endpoint/reply_tokens": "Tokens of the replies that the iteration used.",
        "endpoint/cost": "Cost of the replies that the iteration used, in the currency of the prices.",
        "endpoint/cost_of_run": "Cost of all replies that the run has got so far, in the currency of the prices.",
        # Diversity
        "diversity/families": "Families among the round's environments: those that are half the same are put together.",
        "diversity/nearest_similarity": "Mean similarity of the round's environments to their nearest in the pool.",
        "diversity/grounding": "Share of the programs' content words that come from their document.",
        "diversity/grounding_control": "The same share against a document of another environment.",
        "memory/positives": "Mean positive examples shown per attempt of the round.",
        "memory/negatives": "Mean negative examples shown per attempt of the round.",
        "memory/tokens": "Mean tokens that memory added to a designer prompt of the round.",
        "corpus/epoch": "Times that the corpus has been gone through.",
        # Learning
        "learning/loss": "Mean loss of the iteration's minibatches (0 at an on-policy step is normal).",
        "learning/grad_norm": "Mean norm of the gradient before it is clipped.",
        "learning/agent_grad_norm": "Mean norm of the agent's part of the gradient.",
        "learning/designer_grad_norm": "Mean norm of the designer's part of the gradient.",
        "learning/agent_grad_share": "Share of the agent in the two roles' summed gradient norms.",
        "learning/designer_grad_share": "Share of the designer in the two roles' summed gradient norms.",
        "learning/clipped_share": "Share of trained tokens whose gradient the clip of the ratio removed.",
        "learning/mean_abs_advantage": "Mean absolute advantage of trained tokens.",
        "learning/agent_sequences": "Agent episodes trained on.",
        "learning/designer_sequences": "Designer attempts trained on.",
        "learning/agent_tokens": "Sampled agent tokens trained on.",
        "learning/designer_tokens": "Sampled designer tokens trained on.",
        "learning/dead_environments": "Environments without spread of returns: nothing to learn, skipped.",
        "learning/dead_skills": "Skills whose designer rewards have no spread: nothing to learn, skipped.",
        "learning/refused_steps": "Optimiser steps refused because the gradient was not finite.",
        "learning/skipped": "1 if the iteration had nothing to train on, otherwise 0.",
        "learning/tis_weight": "Mean truncated importance weight of delayed designer tokens.",
        "learning/tis_capped_share": "Share of delayed designer tokens whose importance weight reached the cap.",
        "learning/delay": "Mean iterations between sampling and training of the designer attempts trained on.",
        "learning/kl": "Mean estimated KL divergence per trained token to the starting policy.",
        "learning/entropy": "Mean negative log-probability of sampled tokens: an estimate of the policy's entropy.",
        "learning/logprob_mismatch": "Mean absolute difference of a token's log-probability, sampler against trainer.",
        "learning/logprob_mismatch_max": "Largest such difference.",
        "learning/logprob_mismatch_sequence_max": "Largest absolute sum of such differences over one sequence.",
        "learning/ratio": "Mean importance ratio of trained tokens before the first step; 1 if both sides agree.",
        "learning/unchanged_weights": "Share of weights that the iteration left exactly as they were.",
        "learning/weights_checksum": "48 bits of a digest of all weights after the iteration: equal for equal weights.",
        # Held-out evaluation
        "heldout/in_family": "Share of held-out items of the seed families that were solved; errors count as failures.",
        "heldout/in_family_low": "Lower end of its 95 % bootstrap interval.",
        "heldout/in_family_high": "Upper end of its 95 % bootstrap interval.",
        "heldout/out_of_family": "Share solved of held-out items of families that the designer was never started on.",
        "heldout/out_of_family_low": "Lower end of its 95 % bootstrap interval.",
        "heldout/out_of_family_high": "Upper end of its 95 % bootstrap interval.",
        "heldout/cut_share": "Share of held-out episodes that a token budget ended.",
        "heldout/errors": "Held-out episodes that ended in an error; they count as failures.",
        # Time
        "time/design_s": "Seconds spent writing and checking environments.",
        "time/gates_s": "Seconds of the gates, added up over attempts that ran at the same time.",
        "time/play_s": "Seconds spent playing.",
        "time/update_s": "Seconds spent updating the weights.",
        "time/store_s": "Seconds spent adding the iteration to the pool.",
        "time/checkpoint_s": "Seconds that the checkpoint before this iteration took.",
        "time/evaluation_s": "Seconds spent on held-out evaluation.",
        "time/iteration_s": "Seconds of the whole iteration.",
        "time/sampled_tokens_per_s": "Tokens sampled per second of design and play.",
    }
)
