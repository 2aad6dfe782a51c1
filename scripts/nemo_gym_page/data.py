"""Datasets: measured, fetched, shared, and benchmarks made."""

from nemo_gym_page.command import Command, Session, alone

BLOCK = """\
example_multi_step_resources_server:
  resources_servers:
    example_multi_step:
      entrypoint: app.py
      domain: instruction_following
example_multi_step_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server:
        type: resources_servers
        name: example_multi_step_resources_server
      model_server:
        type: responses_api_models
        name: policy_model
      datasets:
      - name: train
        type: train
        license: Apache 2.0
        jsonl_fpath: resources_servers/example_multi_step/data/train.jsonl
        num_repeats: 1
        huggingface_identifier:
          repo_id: nvidia/Nemotron-RL-instruction_following
          artifact_fpath: instruction_following.jsonl
          license: Apache 2.0
        license: Apache 2.0
"""

SESSIONS = (
    *alone(
        Command(
            "Example data checked and measured",
            'config_paths="resources_servers/example_multi_step/configs/example_multi_step.yaml,\\\n'
            'responses_api_models/openai_model/configs/openai_model.yaml"\n'
            'ng_prepare_data "+config_paths=[$config_paths]" \\\n'
            "    +output_dirpath=data/example_multi_step \\\n"
            "    +mode=example_validation",
            (r"Number of", r"Json-dumped", r"Unique", r"example\.jsonl$"),
        ),
        Command(
            "Training data from the Hugging Face hub",
            'config_paths="resources_servers/example_multi_step/configs/example_multi_step.yaml,\\\n'
            'responses_api_models/openai_model/configs/openai_model.yaml"\n'
            'ng_prepare_data "+config_paths=[$config_paths]" \\\n'
            "    +output_dirpath=data/example_multi_step \\\n"
            "    +mode=train_preparation \\\n"
            "    +should_download=true",
            (r"^ all of", r"(train|validation)\.jsonl$"),
        ),
        Command(
            "A dataset with its license given twice",
            f"cat > block.yaml <<'END'\n{BLOCK}END\n"
            'ng_prepare_data "+config_paths=[block.yaml,'
            'responses_api_models/openai_model/configs/openai_model.yaml]" \\\n'
            "    +output_dirpath=data/example_multi_step \\\n"
            "    +mode=train_preparation \\\n"
            "    +should_download=true",
            (r"'license' is given twice with one value", r"^ all of", r"  data/\S+/train\.jsonl$"),
        ),
        Command(
            "Training data from GitLab's registry",
            'config_paths="resources_servers/example_multi_step/configs/example_multi_step.yaml,\\\n'
            'responses_api_models/openai_model/configs/openai_model.yaml"\n'
            'ng_prepare_data "+config_paths=[$config_paths]" \\\n'
            "    +output_dirpath=data/example_multi_step \\\n"
            "    +mode=train_preparation \\\n"
            "    +should_download=true \\\n"
            "    +data_source=gitlab",
            (r"^ all of", r"(train|validation)\.jsonl$"),
        ),
    ),
    Session(
        (
            Command(
                "A validation set as a pull request on the hub",
                "resource_config_path="
                '"resources_servers/multineedle/configs/multineedle.yaml"\n'
                "ng_upload_dataset_to_hf \\\n"
                "    +dataset_name=my_dataset \\\n"
                "    +input_jsonl_fpath=validation.jsonl \\\n"
                "    +resource_config_path=${resource_config_path} \\\n"
                "    +hf_organization=acme \\\n"
                "    +split=validation \\\n"
                "    +create_pr=true \\\n"
                "    +revision=my-branch-name \\\n"
                '    +commit_message="Add the validation set" \\\n'
                '    +commit_description="Rows of my environment"',
                (r"^Pull Request created: ", r"^verified: "),
            ),
            Command(
                "A training set on the hub, and back",
                "ng_upload_dataset_to_hf \\\n"
                "    +dataset_name=my_dataset \\\n"
                "    +input_jsonl_fpath=train.jsonl \\\n"
                "    +resource_config_path=resources_servers/example_multi_step/configs/"
                "example_multi_step.yaml \\\n"
                "    +hf_organization=acme\n"
                "ng_download_dataset_from_hf \\\n"
                "    +repo_id=acme/Nemotron-RL-agent-my_dataset \\\n"
                "    +artifact_fpath=train.jsonl \\\n"
                "    +output_fpath=data/train.jsonl\n"
                "cmp train.jsonl data/train.jsonl",
                (r"^verified: ", r"data/train"),
            ),
        )
    ),
    Session(
        (
            Command(
                "A dataset into GitLab's registry",
                "ng_upload_dataset_to_gitlab \\\n"
                "    +dataset_name=my_dataset \\\n"
                "    +version=0.0.1 \\\n"
                "    +input_jsonl_fpath=train.jsonl",
                (r"^Dataset upload successful", r"^verified: "),
            ),
            Command(
                "One dataset of GitLab's registry",
                "ng_download_dataset_from_gitlab \\\n"
                "    +dataset_name=my_dataset \\\n"
                "    +version=0.0.1 \\\n"
                "    +artifact_fpath=train.jsonl \\\n"
                "    +output_fpath=data/train.jsonl\n"
                "wc -l < data/train.jsonl",
                (r"^5$",),
            ),
            Command(
                "From GitLab's registry to the hub",
                "ng_gitlab_to_hf_dataset \\\n"
                "    +dataset_name=my_dataset \\\n"
                "    +input_jsonl_fpath=train.jsonl \\\n"
                "    +resource_config_path=resources_servers/example_multi_step/configs/"
                "example_multi_step.yaml \\\n"
                "    +hf_organization=acme <<< y",
                (r"^verified: ", r"^Found model .*Deleted"),
            ),
            Command(
                "A dataset deleted from GitLab's registry",
                "ng_delete_dataset_from_gitlab +dataset_name=example_multi_step <<< y",
                (r"^Found model .*Deleted",),
            ),
        )
    ),
    *alone(
        Command(
            "Prompts filled into rows",
            "cat > prompt.yaml <<'END'\n"
            "system: Answer with a number.\n"
            'user: "{question}"\n'
            "END\n"
            "cat > questions.jsonl <<'END'\n"
            '{"question": "What is 2 + 2?", "expected_answer": "4"}\n'
            "END\n"
            "ng_materialize_prompts \\\n"
            "    +input_jsonl_fpath=questions.jsonl \\\n"
            "    +prompt_config=prompt.yaml \\\n"
            "    +output_jsonl_fpath=prompts.jsonl\n"
            "cat prompts.jsonl",
            (r"^wrote 1 rows", r"prompt_config_used"),
        ),
    ),
)
